package proxytest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/caudal-dev/caudal/internal/redistest"
)

func post(t *testing.T, address, path string, body any) (int, []byte) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post("http://"+address+path, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, data
}

// TestReceiptsAreGoodAtEachInstance: two processes, one Redis, one secret.
func TestReceiptsAreGoodAtEachInstance(t *testing.T) {
	redis := redistest.Start(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("thirty-two bytes of a test secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addresses := []string{FreeAddress(t), FreeAddress(t)}
	for _, address := range addresses {
		config := filepath.Join(t.TempDir(), "caudal.yaml")
		if err := os.WriteFile(config, []byte("secret_file: "+secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		// A busy machine must not make them decide without Redis.
		startCaudal(t, address, "--config", config, "--store", redis.URL(), "--store-timeout", "5s")
	}
	check := map[string]any{"attributes": map[string]string{"path": "/api/login", "remote_address": "203.0.113.7"}, "cost": 2}
	var decision struct {
		Allowed bool
		Receipt json.RawMessage
	}
	status, answer := post(t, addresses[0], "/v1/check", check)
	if err := json.Unmarshal(answer, &decision); err != nil || status != http.StatusOK || !decision.Allowed || decision.Receipt == nil {
		t.Fatalf("check at the first = %d %s (%v), want it allowed with a receipt", status, answer, err)
	}
	if _, answer := post(t, addresses[1], "/v1/check", check); !bytes.Contains(answer, []byte(`"allowed":false`)) {
		t.Errorf("check of 2 more at the second = %s, want it denied", answer)
	}
	for i, want := range []struct {
		at     string
		status int
	}{{addresses[1], http.StatusOK}, {addresses[0], http.StatusConflict}, {addresses[1], http.StatusConflict}} {
		if status, answer := post(t, want.at, "/v1/refund", map[string]any{"receipt": decision.Receipt}); status != want.status {
			t.Errorf("refund %d = %d %s, want %d", i+1, status, answer, want.status)
		}
	}
	if _, answer := post(t, addresses[0], "/v1/check", check); !bytes.Contains(answer, []byte(`"allowed":true`)) {
		t.Errorf("check of 2 after the refund = %s, want it allowed", answer)
	}
}
