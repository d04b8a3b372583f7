package rule

import (
	"encoding/json"
	"fmt"
	"strings"
)

// JSONSchema gives the JSON Schema (draft 2020-12) of a rule file, for editors.
// It is made from the table that the reader itself uses, so the two know the same
// keys. A schema cannot say all that the reader checks: a file that it accepts may
// still be refused.
func JSONSchema() []byte {
	all := allSpecs()
	defs := map[string]any{}
	for _, name := range sortedKeys(all) {
		if name != "file" {
			defs[name] = all[name].schema()
		}
	}
	root := all["file"].schema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "caudal rule file"
	root["$defs"] = defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil { // not for maps of strings and numbers
		return nil
	}
	return append(text, '\n')
}

func (s *keySpecs) schema() map[string]any {
	properties := map[string]any{}
	for _, k := range s.keys {
		if k.acts {
			p := k.value.schema()
			p["description"] = k.about
			properties[k.name] = p
		}
	}
	m := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(s.required) > 0 {
		m["required"] = s.required
	}
	return m
}

// scalarText is what the reader takes as text: whole numbers and truth values
// without quotes count as what was written.
var scalarText = []string{"string", "integer", "boolean"}

func (v valueSpec) schema() map[string]any {
	switch v.kind {
	case aWord:
		return map[string]any{"type": scalarText, "minLength": 1}
	case aNumber:
		return map[string]any{"type": "integer", "minimum": v.min, "maximum": v.max}
	case aFactor:
		return map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": maxFactor}
	case aFlag:
		return map[string]any{"type": "boolean"}
	case aLength:
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(us|µs|ms|s|m|h))+$`}
	case anEnum:
		return map[string]any{"enum": v.words()}
	case aUnit:
		// Letter case does not count in a unit, which an enumeration cannot say.
		return map[string]any{"type": "string", "pattern": "^(" + strings.Join(anyCase(v.words()), "|") + ")$"}
	case aMapping:
		return map[string]any{"$ref": "#/$defs/" + v.holds}
	case aList:
		return map[string]any{"type": []string{"array", "null"}, "items": map[string]any{"$ref": "#/$defs/" + v.holds}}
	case freeMapping:
		return map[string]any{"type": []string{"object", "null"}}
	case statusList:
		return map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": []string{"integer", "string"},
			"minimum": leastStatus, "maximum": mostStatus, "pattern": "^[1-5]xx$"}}
	case shareMapping:
		return map[string]any{"type": "object", "minProperties": 1, "maxProperties": maxRegions,
			"additionalProperties": map[string]any{"type": "integer", "minimum": 0, "maximum": 100}}
	case textMapping:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": scalarText}}
	}
	return map[string]any{"type": scalarText}
}

// anyCase writes words as patterns that take capitals too.
func anyCase(words []string) []string {
	var patterns []string
	for _, w := range words {
		var b strings.Builder
		for _, c := range w {
			fmt.Fprintf(&b, "[%c%c]", c-'a'+'A', c)
		}
		patterns = append(patterns, b.String())
	}
	return patterns
}
