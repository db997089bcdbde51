package correct

import (
	"regexp"
	"slices"
)

// The phrases in which programs and libraries complain. The texts from which they are taken
// are in the tests. All patterns are constants: nothing is compiled from what a pod says.

// unknown is what is said of something that a program does not know or cannot use.
const unknown = `unknown|unrecogni[sz]ed|unexpected|undefined|unsupported|unused|unhandled|unmatched|unparsed|invalid|illegal|bad|malformed|ambiguous|non-?existent|extra|extraneous|superfluous|surplus|stray|left ?over|no such|(?:not|isn't|wasn't) (?:an? )?(?:recogni[sz]ed|valid|defined|found|known|supported|allowed|permitted|accepted|expected|understood|option)|does(?:n't| not) exist`

// unusable is what is said of something that a program takes for a file.
const unusable = `(?:cannot|can not|can't|could not|couldn't|unable to|failed to|error) (?:open(?:ing)?|read(?:ing)?|find(?:ing)?|load(?:ing)?|pars(?:e|ing)|access(?:ing)?|stat|resolv(?:e|ing)|locat(?:e|ing)|import(?:ing)?|include|including|consum(?:e|ing)|interpret|understand|decod(?:e|ing)|find or load)|permission denied`

// noun is what a program calls it, or a word between the complaint and its object.
const noun = `command[- ]?lines?|long|short|shorthand|positional|config(?:uration)?|input|jar ?file|main class|module|literal|base \d+|index \d+|for|from|in|at|to|of|the|or|an?|int\(\)|with|files?|directory|flags?|options?|switch(?:es)?|arguments?|args?|parameters?|operands?|commands?|subcommands?|variables?|keys?|settings?|values?|directive|predicate|propert(?:y|ies)|field|token|string|paths?|names?|addresse?s?|host|port|url|number|found|left|provided|but|not|defined|was|given|passed|certificates?|chain|private|tls|ssl|pem|key ?pair|x509|open`

// quotes are what may be around the name: quotation marks, brackets and colours.
const quotes = `(?:['"\x60()<>\[\]‘’“”«»]|\x1b\[[\d;]{0,8}m){0,4}`

// refusedBefore matches the text before the name or the file of what was given, if that is what the
// line complains of: unrecognized option '--NAME, cannot open configuration file --NAME,
// permission denied: 'FILE.
var refusedBefore = regexp.MustCompile(`(?i)\b(?:` + unknown + `|` + unusable + `)(?:[ :,]+(?:` + noun + `))*[:,]? *(?:-- )?` + quotes + `[\w./]{0,40}-{0,2}$`)

// refusedAfter matches the text after the name and its value, or after the file, if that is what the
// line complains of: --NAME=VALUE: invalid option, '--NAME' is not recognized, FILE: permission denied.
var refusedAfter = regexp.MustCompile(`(?i)^` + quotes + `\s*[:(-]?\s*(?:(?:this|which|that|is|are|has|have|failed|error|\d+|` + noun + `)[ :(]+)*(?:` + unknown + `|missing port|first path segment|permission denied|operation not permitted|read-only file system|group or world access|too open|is a directory|takes no|needs? |requires? )`)

// refusedInList matches the same in a line that begins with the name as a help text does:
//
//	--NAME : Unknown option
var refusedInList = regexp.MustCompile(`(?i)^\s*:\s*(?:` + unknown + `)`)

// troubled matches what a line says that is not only for information.
var troubled = regexp.MustCompile(`(?i)\b(?:` + unknown + `|` + unusable + `|error|fatal|panic\w*|fail\w*|cannot|can't|could not|unable|\w+n't|must|requires?|required|needs?|missing|not|no|ignor\w+|wrong|refused|rejected|exception|unknown\w*|unexpected\w*|unrecognized\w*|invalid\w*)\b`)

// informs matches a line that is logged for information.
var informs = regexp.MustCompile(`(?i)\b(?:info|debug|trace|notice)\b|^I\d{4} `)

// uses matches what a program says of flags that it uses.
var uses = regexp.MustCompile(`(?i)\b(?:loaded|loading|using|uses|enabled|serving|serves|listening|starting|started|watching|reload\w*|configured)\b`)

// benign reports whether the line says something of a flag that is not the reason of an exit.
func benign(line string) bool {
	return informs.MatchString(line) || uses.MatchString(line) && !troubled.MatchString(line)
}

// helps reports whether the line is one of a help text: it lists an option, or all.
func helps(line string) bool { return listed.MatchString(line) || usage.MatchString(line) }

// listed matches an option in a help text. One that a colon follows is complained about.
var listed = regexp.MustCompile(`^\s*\[?--?[A-Za-z][0-9A-Za-z_.-]*([^:0-9A-Za-z_.-]|$)`)

// deprecated matches what a program says of a flag that it knows.
var deprecated = regexp.MustCompile(`(?i)\bdeprecated\b`)

// argument is what is counted on a command line.
const argument = `(?:arguments?|args?|arguments?\(s\)|args?\(s\)|operands?|parameters?|positionals?)`

// count is how many.
const count = `(?:\d+|no|zero|one|two|three)`

// Complaints about a command line.
var complaints = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(unknown|unrecogni[sz]ed|unexpected|undefined|unsupported|invalid|illegal|bad|extra|no such|non-?existent)( [a-z]+){0,3} (flags?|options?|switch(es)?|parameters?|predicate|directive)\b`),
	regexp.MustCompile(`(?i)\b(unknown|unrecogni[sz]ed|unexpected|unsupported|unused|unparsed|illegal|bad|extra|superfluous|surplus|left ?over|trailing|no such)( [a-z-]+){0,3} (commands?|subcommands?|arguments?|args?|operands?|positionals?)\b`),
	regexp.MustCompile(`(?i)\binvalid (command[- ]line )?arguments?:? *['"\x60-]`), // "invalid argument" alone is an error of the kernel
	regexp.MustCompile(`(?i)\bflag provided but not defined\b`),
	regexp.MustCompile(`(?i)\b(flag|option|argument|parameter)s? .*\b(is unknown|not recogni[sz]ed|does not exist|wasn't expected)`),
	regexp.MustCompile(`(?i)\bnot an option\b`),
	regexp.MustCompile(`(?i)\bcould not find an option\b`),
	regexp.MustCompile(`(?i)\bpassed main parameter\b`),
	regexp.MustCompile(`(?i)\b(flag|option|argument|parameter)( ['"\x60]?[\w-]+['"\x60]?)? is (unknown|unrecogni[sz]ed|invalid|illegal|unexpected|not valid|not supported)\b`),
	regexp.MustCompile(`(?i)\b(incorrect|wrong|invalid|bad) usage\b`),

	// There is more on the command line than the program takes.
	regexp.MustCompile(`(?i)\btoo many ([a-z-]+ ){0,2}(` + argument + `|addresses|options?|flags?|words)`),
	regexp.MustCompile(`(?i)\b(exactly|only|at most|no more than|not more than) ` + count + ` ([a-z-]+ ){0,2}` + argument + `\b`),
	regexp.MustCompile(`(?i)\b(exactly|only|at most|no more than|not more than|up to|(a )?maximum( of)?) ` + count + ` ([a-z-]+ ){0,2}(` + argument + `|addresse?s?|files?|file ?names?|paths?|urls?|hosts?|targets?|inputs?|commands?) (is |are |can be |may be |must be )?(required|expected|allowed|accepted|permitted|supported|needed|specified|given)\b`),
	regexp.MustCompile(`(?i)\b(requires?|accepts?|expects?|expected|expecting|takes?|needs?|wants?|wanted|received|got) (exactly |only |at most |no more than |up to |between \d+ and |a maximum of )?` + count + ` ([a-z-]+ ){0,2}` + argument + `\b`),
	regexp.MustCompile(`(?i)\b(does not|doesn't|do not|don't|cannot|can't) (take|accept|expect|support|have) (any )?([a-z-]+ )?(arguments|args|operands|parameters)\b`),
	regexp.MustCompile(`(?i)\b(wrong|incorrect|invalid|unexpected|bad) number of ([a-z-]+ ){0,2}` + argument),
	regexp.MustCompile(`(?i)\b(wrong|incorrect|invalid|unexpected|bad) argument count\b|\b` + count + ` ([a-z-]+ )?` + argument + ` (is |are |were )?(expected|allowed|accepted|permitted)\b`),
	regexp.MustCompile(`(?i)\bno ([a-z-]+ )?` + argument + ` (is |are |were )?(expected|allowed|supported|accepted|permitted)\b`),
	regexp.MustCompile(`(?i)\b` + argument + ` (is |are |were )?(not|un)[ -]?(expected|allowed|supported|accepted|permitted|used)\b`),

	// It could not read its command line.
	regexp.MustCompile(`(?i)\b(error|errors|failed|failure|cannot|can't|could not|couldn't|unable)( [a-z]+){0,2} (parse|parsing|process|processing|read|reading|decode|decoding|in) (the )?([a-z]+ )?(command[- ]?line|flags|options|arguments|args|argv)\b`),
	regexp.MustCompile(`(?i)\b(bad|invalid|illegal|malformed) command[- ]?line\b|\b(command[- ]?line|options|usage|argument) error\b`),
	regexp.MustCompile(`(?i)\b(command[- ]?line|arguments?|options?|flags?) pars(ing|er) (error|failed|failure)\b`),
}

// others matches what is said of a command or a call that is not the program's own command
// line: by a server to which a program sent something, by a function of a program, or of a
// configuration file.
var others = regexp.MustCompile(`\bERR (unknown|wrong)\b|\b(TypeError|ArgumentError|ArgumentCountError|ArityException|NoMethodError|SQLSTATE|SQLException|SyntaxError)\b|\b(sql|pq|mysql|pgx|template): |\w\(\) (takes|expects) |(?i)\btoo many open\b|\b(in|of) (the )?(file |config\w* )?['"\x60]?(config\w*\b|[\w./-]+\.(ya?ml|json|toml|conf|ini|cfg|properties|xml|hcl|cnf)\b)`)

// complains reports whether the line is a complaint about the command line.
func complains(line string) bool {
	is := func(r *regexp.Regexp) bool { return r.MatchString(line) }
	return slices.ContainsFunc(complaints, is) && !others.MatchString(line)
}

// longFlag matches a flag of more than one letter.
var longFlag = regexp.MustCompile("(^|[\\s'\"`:(=])--?([A-Za-z][0-9A-Za-z._-]+)")

// usage matches the beginning of a help text.
var usage = regexp.MustCompile(`(?i)^\s*(usage\b( of\b| ?:|$| [\w./-]+ [\[<-])|syntax:|synopsis\b|(?-i:(Available )?(Options|Commands|Flags|Arguments|OPTIONS|COMMANDS|FLAGS)):\s*$)|[:\]] +usage:(\s*$|\s+[^\s\d])`)

// advice matches the advice to read a help text.
var advice = regexp.MustCompile(`(?i)(^|[.;,(:]) *(please )?(try|run|use|see|type) (.{0,60}['"\x60 ])?['"\x60]?(--help|-help|-h)\b`)
