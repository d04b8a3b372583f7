package dashboard

import "time"

// Snapshot is the state at a moment. What is unknown is zero.
type Snapshot struct {
	// At is the moment.
	At time.Time `json:"at"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// State is how the limiter is.
	State State `json:"state"`
	// Enforcement says whether anything is denied.
	Enforcement Enforcement `json:"enforcement"`
	// Traffic is what was decided in the last ten seconds, and Last in the last one.
	Traffic Rates  `json:"traffic"`
	Last    Counts `json:"last"`
	// Latency is how long decisions took in about the last minute.
	Latency Latency `json:"latency"`
	// Store is what counts.
	Store Store `json:"store"`
	// Config is the rules in force.
	Config Config `json:"config"`
	// Rules are the rules, at most MaxRules of them: the busiest.
	Rules []Rule `json:"rules"`
	// Concurrencies are the limits of calls under way, at most MaxRules of them.
	Concurrencies []Concurrency `json:"concurrencies,omitempty"`
	// Offenders are the keys that were denied most often in the last five to ten
	// minutes, over all rules.
	Offenders []Offender `json:"offenders"`
}

// MaxRules and MaxOffenders bound what is shown.
const (
	MaxRules     = 200
	MaxOffenders = 20
)

// State says how the limiter is, since when and why.
type State struct {
	// Name is ok, degraded or draining.
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"`
}

// Enforcement says whether limits deny.
type Enforcement struct {
	// On is false while an operator has turned it off, until Until if that is known.
	On    bool       `json:"on"`
	Until *time.Time `json:"until,omitempty"`
	// DryRun says that this instance was started to deny nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Blocks is how many clients are blocked by hand.
	Blocks int `json:"blocks"`
}

// Rates are calls per second.
type Rates struct {
	Allowed float64 `json:"allowed"`
	Denied  float64 `json:"denied"`
	Shadow  float64 `json:"shadow"`
}

// Counts are calls.
type Counts struct {
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	Shadow  uint64 `json:"shadow"`
}

// Latency is a distribution, in microseconds, to the precision of the buckets in
// which it was counted.
type Latency struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Count uint64  `json:"count"` // calls that were timed
}

// Store is what counts.
type Store struct {
	Kind      string  `json:"kind"`
	Keys      int64   `json:"keys"`
	Instances int     `json:"instances,omitempty"` // that share it
	Shared    bool    `json:"shared"`
	Latency   Latency `json:"latency"`
	Errors    uint64  `json:"errors"` // calls that failed, in about the last minute
}

// Config is the rules in force.
type Config struct {
	Hash     string    `json:"hash"`
	LoadedAt time.Time `json:"loaded_at"`
	Limits   int       `json:"limits"`
	Warnings int       `json:"warnings"`
	// Refused says why the last load was refused, and RefusedAt when; the rules
	// before stay in force then.
	Refused   string     `json:"refused,omitempty"`
	RefusedAt *time.Time `json:"refused_at,omitempty"`
}

// Rule is one rule and what is going on with it.
type Rule struct {
	// ID names it among all, and Domain and Name to people.
	ID     string `json:"id"`
	Domain string `json:"domain"`
	Name   string `json:"name"`
	// Words is the limit and Worst its worst case; Mode is enforce, shadow or quota.
	Words string `json:"words"`
	Worst string `json:"worst"`
	Mode  string `json:"mode"`
	// Rates are means of the last ten seconds, and Last is the last second.
	Rates Rates  `json:"rates"`
	Last  Counts `json:"last"`
	// Waiting is how many calls this process holds until their turn in a leaky_bucket.
	Waiting int64 `json:"waiting,omitempty"`
	// NearLimit is about how many keys have less than a fifth left.
	NearLimit int `json:"near_limit"`
	// FalsePositives are likely ones since the start, by kind.
	FalsePositives map[string]uint64 `json:"false_positives,omitempty"`
}

// Concurrency is a limit of calls under way at once.
type Concurrency struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	// Words say what it does; Mode is enforce or shadow.
	Words string `json:"words"`
	Mode  string `json:"mode"`
	// UnderWay is how many calls of this instance hold a permit, over all keys;
	// Allowed, Denied and Shadow what was decided since the rule was loaded.
	UnderWay int64  `json:"under_way"`
	Allowed  uint64 `json:"allowed"`
	Denied   uint64 `json:"denied"`
	Shadow   uint64 `json:"shadow"`
}

// Offender is a key that was denied.
type Offender struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	// Label says whose key it is; secrets are the beginning of Hash.
	Label string `json:"label"`
	Hash  string `json:"hash,omitempty"`
	// Count is how often it was denied, at most, and Share its part of the rule's
	// denials, from 0 to 1.
	Count uint64  `json:"count"`
	Share float64 `json:"share"`
}

// History is what was decided before the first snapshot, one number for each
// second, the oldest first.
type History struct {
	// Until is when the last second ended.
	Until   time.Time `json:"until"`
	Allowed []uint32  `json:"allowed"`
	Denied  []uint32  `json:"denied"`
	// Rules is what was decided by each rule in the last minute, by Rule.ID: all, and
	// denied.
	Rules map[string]RuleHistory `json:"rules"`
}

// RuleHistory is the last minute of one rule.
type RuleHistory struct {
	All    []uint32 `json:"all"`
	Denied []uint32 `json:"denied"`
}
