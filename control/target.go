package control

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"
)

// maxText bounds the attribute and the value of a target.
const maxText = 4096

// hashMark stands before a value that is a hash.
const hashMark = "sha256:"

// Target says whom a block is about: an attribute of requests and its value. Make
// it with ParseTarget; the zero Target is nobody.
type Target struct {
	attribute string
	value     string       // in clear; empty where only the hash is held
	hash      string       // lower-case hex, where the value is not held
	prefix    netip.Prefix // of remote_address
}

// shown are the attributes whose values may be shown: addresses, and labels that
// the operator gave.
var shown = map[string]bool{"remote_address": true, "user": true, "plan": true, "path": true, "host": true, "method": true}

// ParseTarget reads a target: ATTRIBUTE=VALUE, as in api_key=k-123, or an address
// or a network alone. An IPv6 address stands for its /64 network, which is what one
// client has; write /128 to mean it alone. A value that is not to be written down
// can be given by its hash, as caudal hash prints it: api_key=sha256:HEX.
func ParseTarget(text string) (Target, error) {
	attribute, value, found := strings.Cut(text, "=")
	if !found {
		if _, err := parsePrefix(text); err != nil {
			return Target{}, fmt.Errorf("control: %.80q names nobody: write ATTRIBUTE=VALUE, such as api_key=k-123 or remote_address=203.0.113.9", text)
		}
		attribute, value = "remote_address", text
	}
	attribute = strings.TrimSpace(attribute)
	if name, ok := strings.CutPrefix(attribute, "header:"); ok {
		attribute = "header:" + textproto.CanonicalMIMEHeaderKey(name)
	}
	switch {
	case attribute == "" || value == "":
		return Target{}, fmt.Errorf("control: %.80q lacks an attribute or a value: write it like api_key=k-123", text)
	case len(attribute) > maxText || len(value) > maxText:
		return Target{}, fmt.Errorf("control: the attribute or the value is longer than %d bytes", maxText)
	case attribute == "remote_address":
		p, err := parsePrefix(value)
		if err != nil {
			return Target{}, fmt.Errorf("control: %.80q is no address or network: write it like 203.0.113.9 or 203.0.113.0/24", value)
		}
		return Target{attribute: attribute, value: addressText(p), prefix: p}, nil
	case shown[attribute]:
		return Target{attribute: attribute, value: value}, nil
	}
	if given, ok := strings.CutPrefix(value, hashMark); ok {
		if _, err := hex.DecodeString(given); err != nil || len(given) != 2*sha256.Size {
			return Target{}, fmt.Errorf("control: %.80q is no SHA-256: write the 64 digits that caudal hash prints", given)
		}
		return Target{attribute: attribute, hash: strings.ToLower(given)}, nil
	}
	return Target{attribute: attribute, hash: hashOf(value)}, nil
}

// parsePrefix reads an address or a network. One that covers more than half of all
// addresses is a slip of the pen.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap().WithZone("")
		bits := 32
		if a.Is6() {
			bits = 64
		}
		return a.Prefix(bits)
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() {
		err = fmt.Errorf("an IPv4-mapped network")
	}
	if err == nil && p.Bits() < 1 {
		err = fmt.Errorf("everybody")
	}
	return p.Masked(), err
}

func addressText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// String writes the target as ParseTarget reads it, a secret value as its hash.
func (t Target) String() string {
	if t.hash != "" {
		return t.attribute + "=" + hashMark + t.hash
	}
	return t.attribute + "=" + t.value
}
