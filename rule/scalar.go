package rule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Scalars are taken as the text written or refused. YAML would read 010 as 8,
// 1e3 as 1000 and a date as an instant; none of that may happen to a tenant's
// name or to a limit.

// maxText bounds a key, a value or a name in a rule file.
const maxText = 1024

// text reads a scalar as text. Whole numbers, true, false and dates without
// quotes count as what was written; null and fractions are refused, as in both
// it is unclear what was meant.
func (r *reader) text(f field) (string, bool) { return r.textUpTo(f, maxText) }

func (r *reader) textUpTo(f field, most int) (string, bool) {
	n := f.value
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fail(n, f.path, "write text", "%s where text is wanted", nodeWords(n))
	case n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != "!!str":
		r.fail(n, f.path, "leave the tag out, and write quotes for text", "tag %s is not used in rule files", n.ShortTag())
	case n.ShortTag() == "!!null":
		r.fail(n, f.path, "leave the key out, or write quotes if the word is meant", "null where text is wanted")
	case n.ShortTag() == "!!float":
		r.fail(n, f.path, "write quotes to take it as text", "the number %s where text is wanted", clip(n.Value))
	case len(n.Value) > most:
		r.fail(n, f.path, "", "text of %d bytes is over %d", len(n.Value), most)
	default:
		return n.Value, true
	}
	return "", false
}

// word reads text that may not be empty.
func (r *reader) word(f field) (string, bool) {
	s, ok := r.text(f)
	if ok && s == "" {
		r.fail(f.value, f.path, "", "%s is empty", f.name)
		return "", false
	}
	return s, ok
}

// number reads a whole number within the bounds of its key, in plain decimal
// digits.
func (r *reader) number(f field) (uint32, bool) {
	n := f.value
	hint := fmt.Sprintf("write a whole number from %d to %d in plain digits", f.spec.min, f.spec.max)
	if n.Kind != yaml.ScalarNode {
		r.fail(n, f.path, hint, "%s where a number is wanted", nodeWords(n))
		return 0, false
	}
	if n.ShortTag() == "!!str" && n.Style != 0 {
		r.fail(n, f.path, hint+" without quotes", "the text %q where a number is wanted", clip(n.Value))
		return 0, false
	}
	if !plainDigits(n.Value) || n.Style&yaml.TaggedStyle != 0 {
		r.fail(n, f.path, hint, "%s where a number is wanted", nodeWords(n))
		return 0, false
	}
	v, err := strconv.ParseUint(n.Value, 10, 32)
	if err != nil || uint32(v) < f.spec.min || uint32(v) > f.spec.max {
		r.fail(n, f.path, hint, "%s is out of range", clip(n.Value))
		return 0, false
	}
	return uint32(v), true
}

// plainDigits refuses 010, 0x10, 1_000, +5 and 1e3, which do not say the same to
// every reader.
func plainDigits(s string) bool {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// maxFactor bounds local_factor: above it a limit would protect nothing.
const maxFactor = 1000

// factor reads a number that may have a fraction, over 0 and up to maxFactor.
func (r *reader) factor(f field) (float64, bool) {
	const hint = "write a number such as 2 or 1.5, over 0 and up to 1000"
	n := f.value
	whole, fraction, dotted := strings.Cut(n.Value, ".")
	plain := plainDigits(whole) && (!dotted || fraction != "" && strings.Trim(fraction, "0123456789") == "")
	if n.Kind != yaml.ScalarNode || n.Style != 0 || !plain || len(n.Value) > 20 {
		r.fail(n, f.path, hint, "%s where a number is wanted", nodeWords(n))
		return 0, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || v <= 0 || v > maxFactor {
		r.fail(n, f.path, hint, "%s is out of range", clip(n.Value))
		return 0, false
	}
	return v, true
}

// flag reads true or false, in the letter cases of YAML. Other words are refused, for
// YAML 1.2 takes yes and on for text; the reference does not, and a file that it loads
// must load.
func (r *reader) flag(f field) (value, ok bool) {
	n := f.value
	if n.Kind == yaml.ScalarNode && n.Style == 0 {
		switch n.Value {
		case "true", "True", "TRUE":
			return true, true
		case "false", "False", "FALSE":
			return false, true
		}
		if r.opts.CompatEnvoy {
			switch strings.ToLower(n.Value) {
			case "y", "yes", "on":
				return true, true
			case "n", "no", "off":
				return false, true
			}
		}
	}
	r.fail(n, f.path, "write true or false", "%s where true or false is wanted", nodeWords(n))
	return false, false
}

// duration reads a length of time over zero, such as 2s or 250ms.
func (r *reader) duration(f field) (time.Duration, bool) {
	return r.length(f, "to let nobody wait write queue: 0")
}

// length is duration with a hint of its own for a length of zero.
func (r *reader) length(f field, zero string) (time.Duration, bool) {
	const hint = "write a number with its unit, such as 2s or 250ms"
	n := f.value
	if n.Kind != yaml.ScalarNode {
		r.fail(n, f.path, hint, "%s where a duration is wanted", nodeWords(n))
		return 0, false
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case err != nil || n.ShortTag() != "!!str":
		r.fail(n, f.path, hint, "%s where a duration is wanted", nodeWords(n))
	case d <= 0:
		r.fail(n, f.path, zero, "%s must be over 0", clip(n.Value))
	case d%time.Microsecond != 0 || d > maxWaitBound:
		r.fail(n, f.path, "use whole microseconds, at most a year", "%s is out of range", clip(n.Value))
	default:
		return d, true
	}
	return 0, false
}

// nodeWords says what stands in the file, for messages.
func nodeWords(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool", "!!int", "!!float":
		return clip(n.Value)
	}
	return strconv.Quote(clip(n.Value))
}

// clip keeps what a file says short enough for one line of a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
