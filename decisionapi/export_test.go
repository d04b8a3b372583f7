package decisionapi

// Schemas gives the types behind the schemas of the document.
func Schemas() map[string]any {
	return map[string]any{
		"Check": checkRequest{}, "Batch": checkBody{}, "Decision": decision{}, "Decisions": decisions{},
		"LimitDecision": limitDecision{}, "Receipt": receipt{}, "Refund": refundBody{}, "Refunded": refunded{},
		"ConcurrencyDecision": concurrencyDecision{}, "Permit": permitHandle{}, "PermitBody": permitBody{}, "Renewed": renewed{}, "Released": released{},
	}
}
