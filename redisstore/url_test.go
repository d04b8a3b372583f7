package redisstore

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url  string
		want target
	}{
		{"redis://localhost", target{addrs: []string{"localhost:6379"}}},
		{"redis://h:7000/3", target{addrs: []string{"h:7000"}, db: 3}},
		{"redis://app:p%40ss@h", target{addrs: []string{"h:6379"}, user: "app", password: "p@ss"}},
		{"redis://:a:b@[::1]:7000", target{addrs: []string{"[::1]:7000"}, password: "a:b"}},
		{"redis://[::1]", target{addrs: []string{"[::1]:6379"}}},
		{"redis-sentinel://:pw@a:1,b/main/2?sentinel_password=s", target{mode: modeSentinel, addrs: []string{"a:1", "b:26379"},
			password: "pw", master: "main", db: 2, sentinelPass: "s"}},
		{"redis-cluster://a:1,b:2", target{mode: modeCluster, addrs: []string{"a:1", "b:2"}}},
	} {
		got, err := parseURL(c.url, nil)
		if err != nil {
			t.Errorf("parseURL(%q) = %v", c.url, err)
			continue
		}
		if strings.Join(got.addrs, ",") != strings.Join(c.want.addrs, ",") || got.mode != c.want.mode || got.db != c.want.db ||
			got.user != c.want.user || got.password != c.want.password || got.master != c.want.master || got.sentinelPass != c.want.sentinelPass {
			t.Errorf("parseURL(%q) = %+v, want %+v", c.url, got, c.want)
		}
	}
}

func TestParseURLTLS(t *testing.T) {
	got, err := parseURL("rediss://h?server_name=redis.example&insecure=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.tls == nil || got.tls.ServerName != "redis.example" || !got.tls.InsecureSkipVerify {
		t.Errorf("parseURL of rediss gives %+v, want the server name and no checking", got.tls)
	}
	if got, _ := parseURL("rediss://h", nil); got.tls == nil || got.tls.InsecureSkipVerify {
		t.Errorf("parseURL of rediss gives %+v, want TLS with checking", got.tls)
	}
}

// A wrong URL is told in words that say how to mend it, without the password, and
// is not transient.
func TestParseURLErrors(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"", "must begin with"},
		{"localhost:6379", "must begin with"},
		{"http://h", "must begin with"},
		{"redis://", "host is empty"},
		{"redis://:secret@", "host is empty"},
		{"redis://:secret@h:99999", "not a host and a port"},
		{"redis://:secret@h:x", "not a host and a port"},
		{"redis://a:secret@h/x", "not a number"},
		{"redis://a:%zz@h", "percent escape"},
		{"redis://a,b", "several hosts"},
		{"redis-sentinel://a:1", "master's name"},
		{"redis-cluster://a/1", "no databases"},
		{"redis://:secret@h?colour=red", `"colour" is not known`},
		{"redis://:secret@h?ca=x", "TLS only"},
		{"rediss://h?ca=/no/such/file", "ca:"},
		{"rediss://h?cert=x", "go together"},
		{"rediss://h?insecure=maybe", "true or false"},
	} {
		_, err := parseURL(c.url, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parseURL(%q) = %v, want an error that says %q", c.url, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("parseURL(%q) = %v, which shows the password", c.url, err)
		}
		if err.(*Error).Transient() {
			t.Errorf("parseURL(%q) is transient, want not", c.url)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"redis://h", "redis-sentinel://:p@a:1,b/m/2?sentinel_user=u", "rediss://[::1]:1?insecure=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if got, err := parseURL(url, nil); err == nil && len(got.addrs) == 0 {
			t.Errorf("parseURL(%q) gives no address and no error", url)
		}
	})
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		text      string
		kind      Kind
		transient bool
	}{
		{"READONLY You can't write against a read only replica. script: abc, on @user_script:3.", KindReadOnly, true},
		{"ERR Error running script (call to f_abc): @user_script:3: @user_script: 3: -READONLY You can't write", KindReadOnly, true},
		{"ERR Error running script (call to f_abc): @user_script:1: WRONGTYPE Operation against a key", KindWrongType, false},
		{"OOM command not allowed when used memory > 'maxmemory'.", KindOOM, true},
		{"LOADING Redis is loading the dataset in memory", KindLoading, true},
		{"MASTERDOWN Link with MASTER is down", KindReadOnly, true},
		{"CLUSTERDOWN Hash slot not served", KindCluster, true},
		{"WRONGPASS invalid username-password pair or user is disabled.", KindAuth, false},
		{"NOPERM this user has no permissions to run the 'evalsha' command", KindAuth, false},
		{"BADSTATE the value of the counter", KindWrongType, false},
		{"MISCONF Redis is configured to save RDB snapshots", KindOther, true},
		{"ERR user_script:1: attempt to index a nil value script: abc", KindScript, false},
		{"ERR something new", KindOther, false},
	} {
		if kind, transient := classifyAnswer(c.text); kind != c.kind || transient != c.transient {
			t.Errorf("classifyAnswer(%q) = %s, %v, want %s, %v", c.text, kind, transient, c.kind, c.transient)
		}
	}
}
