package rule

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// accuracy reads accuracy, and says where it is written.
func (r *reader) accuracy(fs fields, otherwise caudal.Accuracy) (caudal.Accuracy, *yaml.Node) {
	f, ok := fs.get("accuracy")
	if !ok {
		return otherwise, nil
	}
	s, ok := r.word(f)
	if !ok {
		return otherwise, nil
	}
	a, known := caudal.ParseAccuracy(s)
	if !known {
		hint := "use exact or leased"
		if near := nearest(s, caudal.Accuracies()); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.fail(f.value, f.path, hint, "%q is not known", clip(s))
		return otherwise, nil
	}
	return a, f.key
}

// limitAccuracy reads the accuracy of a limit, which must fit its algorithm, also
// where the file says it.
func (r *reader) limitAccuracy(n *yaml.Node, path string, fs fields, l *rateLimit, file *ruleFile) caudal.Accuracy {
	a, written := r.accuracy(fs, file.accuracy)
	err := caudal.CheckAccuracy(l.limit.Algorithm, a)
	if err == nil {
		return a
	}
	what, hint, _ := strings.Cut(strings.TrimPrefix(err.Error(), caudal.ErrInvalidLimit.Error()+": "), "; ")
	if written == nil {
		r.fail(n, path, hint+" here", "%s; the file says accuracy: %s", what, a)
	} else {
		r.fail(written, path+".accuracy", hint, "%s", what)
	}
	return caudal.Exact
}
