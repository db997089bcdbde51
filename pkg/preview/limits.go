package preview

// Limits of what is read. The cost of a preview grows with the size of its input. A
// stream that exceeds a limit is refused.
const (
	// MaxInput is the most bytes of a file, or of standard input.
	MaxInput = 8 << 20
	// MaxTotal is the most bytes of all files.
	MaxTotal = 64 << 20
	// maxDocuments is the most documents of a file.
	maxDocuments = 10_000
	// MaxObjects is the most objects of all files, those in Lists included.
	MaxObjects = 10_000
	// maxDepth is how deep the values of a document may be nested.
	maxDepth = 1_000
	// MaxLists is how deep Lists may be nested.
	MaxLists = 4
	// maxExpanded is the most bytes that a document with YAML aliases may have in memory
	// once they are replaced by what they refer to.
	maxExpanded = 64 << 20
	// maxMerged is the most values of a document with YAML merge keys that is changed.
	maxMerged = 10_000
)
