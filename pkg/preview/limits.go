package preview

// Limits of the input. The cost of a preview grows with the size of its input. A
// stream that exceeds a limit is refused.
const (
	// MaxInput is the maximum size of a file, or of standard input, in bytes.
	MaxInput = 8 << 20
	// MaxTotal is the maximum size of all files, in bytes.
	MaxTotal = 64 << 20
	// maxDocuments is the maximum number of documents in a file.
	maxDocuments = 10_000
	// MaxObjects is the maximum number of objects in all files, including those in Lists.
	MaxObjects = 10_000
	// maxDepth is the maximum nesting depth of values in a document.
	maxDepth = 1_000
	// MaxLists is the maximum nesting depth of Lists.
	MaxLists = 4
	// maxExpanded is the maximum size in memory of a document with YAML aliases, after
	// they are replaced by their values, in bytes.
	maxExpanded = 64 << 20
	// maxMerged is the maximum number of values in a changed document with YAML merge keys.
	maxMerged = 10_000
)
