package cli

import (
	"net/http"
	"strings"
	"testing"
)

// TestDemoWithRedisCountsOnce: of six logins through two gateways in turns five
// pass, because they count in one Redis.
func TestDemoWithRedisCountsOnce(t *testing.T) {
	p := launch(t, "demo", "--redis", "--listen", "127.0.0.1:0", "--admin-listen", "off")
	one, two, _ := strings.Cut(p.waitFor(t, `gateways http://(\S+ and http://\S+)`), " and http://")
	var codes []int
	for i := range 6 {
		res, err := http.Post("http://"+[]string{one, two}[i%2]+"/login", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		codes = append(codes, res.StatusCode)
	}
	for i, code := range codes {
		want := http.StatusOK
		if i == 5 {
			want = http.StatusTooManyRequests
		}
		if code != want {
			t.Errorf("six logins through two gateways in turns: %v, want five 200 and a 429", codes)
			break
		}
	}
	p.end(t)
}
