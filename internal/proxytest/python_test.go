package proxytest

import (
	"bytes"
	"os/exec"
	"regexp"
	"testing"
)

// TestPythonClient runs the example as it is in the repository.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	address := FreeAddress(t)
	startCaudal(t, address)
	cmd := exec.Command(python, "-B", "../../examples/client-python/example.py", "http://"+address)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("example.py: %v\n%s", err, &stderr)
	}
	want := `^login 1: allowed
login 2: allowed
login 3: allowed
login 4: denied, Retry-After 8\d{4}
login 5: denied, Retry-After 8\d{4}
refund: True
refund again: False
login 6: allowed
a mistake: attributes.remote_address: "nowhere" is no address: write it like 203.0.113.7
$`
	if !regexp.MustCompile(want).Match(out) {
		t.Errorf("example.py printed\n%s\nwant\n%s", out, want)
	}
}

// TestPythonClientPassesWithoutCaudal: the client of a limiter that is gone.
func TestPythonClientPassesWithoutCaudal(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	const program = `
import sys
sys.path.insert(0, "../../examples/client-python")
from caudal import Caudal
d = Caudal("http://` + "\" + sys.argv[1]" + `).check(path="/api/login")
print(d.allowed, d.decided)
`
	out, err := exec.Command(python, "-B", "-c", program, FreeAddress(t)).CombinedOutput()
	if err != nil || string(out) != "True False\n" {
		t.Errorf("a check without caudal printed %q (%v), want True False", out, err)
	}
}
