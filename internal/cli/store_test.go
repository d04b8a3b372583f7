package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/internal/redistest"
)

// TestWrongRedisPassword: the start ends with a line that says so, a hint about
// user and password, and no password.
func TestWrongRedisPassword(t *testing.T) {
	r := redistest.StartPassword(t, "secret")
	var stderr bytes.Buffer
	code := Main([]string{"serve", "--upstream", "http://127.0.0.1:1", "--limit", "1/s", "--listen", "127.0.0.1:0", "--admin-listen", "off",
		"--store", "redis://:wrongone@" + r.Addr}, Streams{Out: &bytes.Buffer{}, Err: &stderr})
	text := stderr.String()
	if code != exitFailed || !strings.HasPrefix(text, "caudal: store: connect: auth: WRONGPASS") ||
		!strings.Contains(text, "\nhint: the server refuses this user and password") || strings.Contains(text, "wrongone") {
		t.Errorf("serve with a wrong password = %d, %q; want 1, what is wrong and how to mend it, and no password", code, text)
	}
}
