package topk

// Entry is a key and how often it came.
type Entry struct {
	// Key is a copy of the key as it was given.
	Key []byte
	// Count is at least how often it came, and more by at most ErrorBound.
	Count, ErrorBound uint64
}

// Sketch keeps the keys that come most often. It is not safe for concurrent use.
// Make it with New.
type Sketch struct {
	// The counters, most first, each a row of these. Hashes are apart, since they
	// are searched.
	hashes []uint64
	counts []uint64
	errors []uint64
	keys   [][]byte

	total uint64
}

// MaxKey is the longest key that a counter keeps; of a longer one the beginning is
// kept.
const MaxKey = 512

// New makes a sketch of k counters, at least 1.
func New(k int) *Sketch {
	k = max(k, 1)
	return &Sketch{hashes: make([]uint64, 0, k), counts: make([]uint64, 0, k), errors: make([]uint64, 0, k), keys: make([][]byte, 0, k)}
}

// Add counts n for a key. Keys are told apart by hash alone, which must be one
// that whoever chooses keys cannot foresee. The key is copied when it gets a
// counter; that allocates until the counter has held one as long.
func (s *Sketch) Add(hash uint64, key []byte, n uint64) {
	s.total += n
	for i, h := range s.hashes {
		if h == hash {
			s.counts[i] += n
			s.rise(i)
			return
		}
	}
	if len(key) > MaxKey {
		key = key[:MaxKey]
	}
	last := len(s.hashes)
	if last < cap(s.hashes) {
		s.hashes, s.counts, s.errors = append(s.hashes, hash), append(s.counts, n), append(s.errors, 0)
		if s.keys = s.keys[:last+1]; s.keys[last] == nil {
			s.keys[last] = make([]byte, 0, 32)
		}
	} else {
		last--
		s.hashes[last], s.errors[last] = hash, s.counts[last]
		s.counts[last] += n
	}
	s.keys[last] = append(s.keys[last][:0], key...)
	s.rise(last)
}

// rise moves a counter that has grown to its place: it changes places with the
// first of those that it has passed one after another.
func (s *Sketch) rise(i int) {
	for i > 0 && s.counts[i-1] < s.counts[i] {
		j := i - 1 // the first with the count of the one above
		for j > 0 && s.counts[j-1] == s.counts[i-1] {
			j--
		}
		s.hashes[i], s.hashes[j] = s.hashes[j], s.hashes[i]
		s.counts[i], s.counts[j] = s.counts[j], s.counts[i]
		s.errors[i], s.errors[j] = s.errors[j], s.errors[i]
		s.keys[i], s.keys[j] = s.keys[j], s.keys[i]
		i = j
	}
}

// Reset forgets all, and keeps the memory.
func (s *Sketch) Reset() {
	s.hashes, s.counts, s.errors, s.keys = s.hashes[:0], s.counts[:0], s.errors[:0], s.keys[:0]
	s.total = 0
}

// Total is how much was counted, for all keys.
func (s *Sketch) Total() uint64 { return s.total }

// floor is the most that a key without a counter can have come.
func (s *Sketch) floor() uint64 {
	if len(s.counts) < cap(s.counts) {
		return 0
	}
	return s.counts[len(s.counts)-1]
}
