package rule

import (
	"encoding/binary"
	"encoding/hex"
)

// KeyPart is one level of a counter's key, for people.
type KeyPart struct {
	// Name is the level's key, such as "api_key".
	Name string
	// Value is what stands there: the value, or for a value of over 4096 bytes its
	// SHA-256 in hex (Hashed). It is empty for Absent and Shared.
	Value  string
	Hashed bool
	// Rule says that the value stands in the rule itself.
	Rule bool
	// Shared says that one counter stands for all values that the rule takes.
	Shared bool
	// Absent says that the request had no such attribute; ByAddress that the
	// client's address, in Value, took its place.
	Absent, ByAddress bool
}

// KeyParts reads the key of one of the limit's calls back: which counter is it?
// There is one part for each level of the rule, from the root. It gives nil for
// bytes that are no key of this limit.
func (l *Limit) KeyParts(key []byte) []KeyPart {
	if l.node == nil {
		return nil
	}
	var parts []KeyPart
	for _, n := range l.node.path() {
		p := KeyPart{Name: n.key, Value: n.value, Rule: n.kind == exactValue}
		if n.keyAny && len(key) > 0 && (key[0] == keyKey || key[0] == keyKey-'a'+'A') {
			tag := key[0]
			text, rest, ok := keyText(tag != keyKey, key[1:])
			if !ok {
				return nil
			}
			p.Name, key = printable(text), rest
		}
		if !p.Rule {
			if len(key) == 0 {
				return nil
			}
			var ok bool
			if key, ok = p.read(key[0], key[1:]); !ok {
				return nil
			}
		}
		parts = append(parts, p)
	}
	if len(key) > 0 {
		return nil
	}
	return parts
}

// read takes what follows a tag.
func (p *KeyPart) read(tag byte, key []byte) (rest []byte, ok bool) {
	pattern := p.Value
	p.Value = ""
	switch tag {
	case keyShared:
		p.Value, p.Shared = pattern, true
		return key, true
	case keyMissing:
		p.Absent = true
		return key, true
	case keyByAddress:
		p.Absent, p.ByAddress = true, true
	case keyValue:
	case keyValue - 'a' + 'A':
		p.Hashed = true
	default:
		return nil, false
	}
	p.Value, rest, ok = keyText(p.Hashed, key)
	return rest, ok
}

// keyText reads a text that is preceded by its length, or a hash.
func keyText(hashed bool, key []byte) (text string, rest []byte, ok bool) {
	const sum = 32
	if hashed {
		if len(key) < sum {
			return "", nil, false
		}
		return hex.EncodeToString(key[:sum]), key[sum:], true
	}
	n, width := binary.Uvarint(key)
	if width <= 0 || n > uint64(len(key)-width) {
		return "", nil, false
	}
	return string(key[width : width+int(n)]), key[width+int(n):], true
}
