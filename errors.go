package caudal

import "errors"

// Sentinel errors. Test with errors.Is; the errors returned say more.
var (
	// ErrInvalidLimit is wrapped by every refusal of a Limit.
	ErrInvalidLimit = errors.New("caudal: invalid limit")

	// ErrStore is wrapped by every failure of a store: no decision was made, and
	// nothing is known to have been charged.
	ErrStore = errors.New("caudal: store failed")

	// ErrClosed is returned by a store that has been closed.
	ErrClosed = errors.New("caudal: store is closed")

	// ErrReceiptUsed is returned when a receipt is refunded a second time.
	ErrReceiptUsed = errors.New("caudal: receipt was refunded before")

	// ErrInvalidRefund is returned when a refund names more than was charged, or
	// a receipt that no allowed decision carried.
	ErrInvalidRefund = errors.New("caudal: invalid refund")

	// ErrUnsupported is returned by a verb that the limiter's store cannot do.
	ErrUnsupported = errors.New("caudal: the store does not support this")
)
