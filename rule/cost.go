package rule

import "encoding/binary"

// CostSource says where a call's cost stands.
type CostSource uint8

const (
	// CostHeader is a header of the request.
	CostHeader CostSource = iota
	// CostQuery is a query parameter.
	CostQuery
	// CostResponseHeader is a header of the response. Max is charged before the
	// call and credited down when the response is there.
	CostResponseHeader
)

var costNames = [...]string{"header", "query", "response_header"}

// String gives the word that rule files use.
func (s CostSource) String() string {
	if int(s) < len(costNames) {
		return costNames[s]
	}
	return "unknown"
}

// Cost says what a call costs under a limit.
type Cost struct {
	// Source and Name say where the cost stands.
	Source CostSource
	Name   string
	// Default is the cost of a call that carries none. A client cannot ask for a
	// cost of 0: that is Default, too.
	Default uint32
	// Max is the largest cost; what is above it counts as Max. So does what a
	// request carries and is no whole number in plain digits ("100x", " 100"), for
	// what reads it behind may be lenient; where Max is not set (the largest number),
	// and in a response, that counts as Default.
	Max uint32

	key string // under which a Request knows the cost
}

// Read gives the cost that a text stands for; ok says whether there is a text.
func (c *Cost) Read(text string, ok bool) uint32 {
	if !ok || len(text) == 0 {
		return c.Default
	}
	n := uint64(0)
	for _, digit := range []byte(text) {
		if digit < '0' || digit > '9' {
			return c.unreadable()
		}
		n = min(n*10+uint64(digit-'0'), 1<<40) // no text is long enough to overflow
	}
	if n == 0 && c.Source != CostResponseHeader {
		return c.Default
	}
	return uint32(min(n, uint64(c.Max)))
}

// unreadable is the cost of a text that is no number.
func (c *Cost) unreadable() uint32 {
	if c.Source == CostResponseHeader || c.Max == maxUint32 {
		return c.Default
	}
	return c.Max
}

// charge gives what to charge before the call.
func (c *Cost) charge(req Request) uint32 {
	if c.Source == CostResponseHeader {
		return c.Max
	}
	v, ok := req.Attribute(c.key)
	if ok && v != "" && v[0] == 0 {
		return c.readSeveral(v[1:])
	}
	return c.Read(v, ok)
}

// readSeveral gives the largest of the costs in a list, each behind its length, which
// is how different values of one name come. A client that adds a small one to what
// its proxy writes, or the server behind reads, must not pay less.
func (c *Cost) readSeveral(list string) uint32 {
	most := uint32(0)
	for list != "" {
		n, size := binary.Uvarint([]byte(list[:min(len(list), binary.MaxVarintLen64)]))
		if size <= 0 || n > uint64(len(list)-size) {
			break // not made by identity
		}
		most = max(most, c.Read(list[size:size+int(n)], true))
		list = list[size+int(n):]
	}
	if most == 0 {
		return c.Default
	}
	return most
}

// cost reads the cost of a descriptor.
func (r *reader) cost(f field) *Cost {
	fs, good := r.mapping(f.value, f.path, costKeys)
	c := &Cost{Default: 1, Max: maxUint32}
	found := 0
	for i, name := range costNames {
		if g, ok := fs.get(name); ok {
			found++
			c.Source = CostSource(i)
			c.Name, ok = r.word(g)
			if ok && c.Source != CostQuery && !isToken(c.Name) {
				r.fail(g.value, g.path, "write a name such as X-Cost", "%q is not a header's name", clip(c.Name))
			}
		}
	}
	if good && found != 1 {
		r.fail(f.value, f.path, "write one of header, query, response_header", "a cost needs one place to read it from, not %d", found)
	}
	if g, ok := fs.get("default"); ok {
		c.Default, ok = r.number(g)
		if ok && c.Default == 0 && c.Source != CostResponseHeader {
			r.fail(g.value, g.path, "use 1 or more", "a call without a cost would count nothing")
		}
	}
	if g, ok := fs.get("max"); ok {
		c.Max, _ = r.number(g)
	} else if good && c.Source == CostResponseHeader {
		r.fail(f.value, f.path, "add max: what is charged until the response is there", "a response_header needs max")
	}
	if c.Default > c.Max && good {
		r.fail(f.value, f.path, "raise max or lower default", "default %d is above max %d", c.Default, c.Max)
	}
	c.key = normalKey(c.Source.String() + ":" + c.Name)
	return c
}
