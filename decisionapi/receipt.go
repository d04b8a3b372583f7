package decisionapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
)

// receipt is what an allowed check was charged, for the caller to keep. Only ID
// and MAC mean something when it comes back.
type receipt struct {
	ID   string `json:"id"`
	MAC  string `json:"mac"`
	Cost uint32 `json:"cost,omitempty"`
}

// limitID identifies a limit on every instance: a hash of its scope.
type limitID [16]byte

func idOf(l *caudal.Compiled) limitID {
	sum := sha256.Sum256([]byte(l.Scope()))
	return limitID(sum[:])
}

// The form of an id: a version, when it expires in microseconds, and for each
// charge the limit, the counter (two words), the charge's own id, its instant and
// fraction, and its cost.
const (
	receiptVersion = 1
	receiptHead    = 1 + 8
	receiptItem    = 16 + 16 + 8 + 8 + 4 + 4
	maxCharges     = 64
	macSize        = 16
)

// lapse is how long after a charge stopped counting its receipt is still taken,
// the same as stores remember receipts that were used.
const lapse = time.Minute

var encoding = base64.RawURLEncoding

// signer makes receipts, and tells its own from others.
type signer struct{ secret []byte }

func (s signer) mac(payload []byte) []byte {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte("caudal receipt"))
	m.Write(payload)
	return m.Sum(nil)[:macSize]
}

// receipt gives the receipt of an outcome; nil when nothing was charged, or by
// more limits than a receipt holds. What one instance counted by itself, because
// the store was gone, is left out: no other instance could give it back, and it is
// forgotten when the store returns.
func (s signer) receipt(o *httplimit.Outcome, now int64) *receipt {
	b := make([]byte, receiptHead, receiptHead+receiptItem*len(o.Decisions))
	b[0] = receiptVersion
	var cost uint32
	var counts time.Duration
	for i := range o.Decisions {
		d := &o.Decisions[i]
		if !d.Charged || d.Receipt.Limit == nil || d.Receipt.Limit.StandsInFor() != nil {
			continue
		}
		id := idOf(d.Receipt.Limit)
		b = append(b, id[:]...)
		for _, word := range []uint64{d.Receipt.Counter[0], d.Receipt.Counter[1], d.Receipt.ID, uint64(d.Receipt.At)} {
			b = binary.BigEndian.AppendUint64(b, word)
		}
		b = binary.BigEndian.AppendUint32(b, d.Receipt.Frac)
		b = binary.BigEndian.AppendUint32(b, d.Receipt.Cost)
		cost = max(cost, d.Receipt.Cost)
		counts = max(counts, d.ResetAfter, d.Delay)
	}
	if n := (len(b) - receiptHead) / receiptItem; n == 0 || n > maxCharges {
		return nil
	}
	binary.BigEndian.PutUint64(b[1:], uint64(now+(counts+lapse).Microseconds()))
	return &receipt{ID: encoding.EncodeToString(b), MAC: encoding.EncodeToString(s.mac(b)), Cost: cost}
}

// Why a receipt is not taken.
var (
	errForged  = errors.New("the receipt does not bear this deployment's MAC: it was changed, or made under another secret (restarted without secret_file?)")
	errExpired = errors.New("the receipt has expired: its charge counts no more")
)

// open gives the charges of a receipt. Those of limits that are no longer in the
// rules are left out: nothing counts them.
func (s signer) open(r receipt, limits map[limitID]*caudal.Compiled, now int64) ([]caudal.Receipt, error) {
	if len(r.ID) > encoding.EncodedLen(receiptHead+maxCharges*receiptItem) {
		return nil, errForged
	}
	b, err := encoding.DecodeString(r.ID)
	mac, errMAC := encoding.DecodeString(r.MAC)
	if err != nil || errMAC != nil || !hmac.Equal(mac, s.mac(b)) {
		return nil, errForged
	}
	// What follows was written here.
	if len(b) < receiptHead || b[0] != receiptVersion || (len(b)-receiptHead)%receiptItem != 0 {
		return nil, errForged
	}
	if now > int64(binary.BigEndian.Uint64(b[1:])) {
		return nil, errExpired
	}
	var charges []caudal.Receipt
	for b = b[receiptHead:]; len(b) > 0; b = b[receiptItem:] {
		limit := limits[limitID(b[:16])]
		if limit == nil {
			continue
		}
		word := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
		charges = append(charges, caudal.Receipt{Limit: limit, Counter: [2]uint64{word(16), word(24)}, ID: word(32), At: int64(word(40)),
			Frac: binary.BigEndian.Uint32(b[48:]), Cost: binary.BigEndian.Uint32(b[52:])})
	}
	return charges, nil
}
