package main

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The model is a map from the keys of one projection to values, and all operations are atomic lists
// of steps on it. Values are numbered when they are first met; number 0 is "no value". Equal values
// have equal numbers, so a state is a string of four bytes for each key, and states are equal if
// these strings are.
//
// For the search it also says when a value that is gone cannot come again. A value has parts: the
// elements of a list that is appended to, else it is its only part. It can come again as long as
// for each part there is an operation to come that writes it. Adding counts as no writing: a
// counter that only grows has no value twice, and of other counters nothing is said.

type modelStep struct {
	kind   stepKind
	offset int // of the key's number in a state
	value  uint32
	delta  int64
	expect uint32 // of an append: what the reads say that comes out; 0: they say nothing
}

type modelOperation struct {
	steps    []modelStep
	optional bool
	pure     bool    // only reads
	needs    []int32 // contents that it reads and did not write itself
	makes    []int32 // parts that it writes
	source   *operation
	// The keys it reads and writes, as bits; keys may share one.
	readKeys, writtenKeys uint64
}

// related tells whether the order of two operations may matter.
func (op *modelOperation) related(other *modelOperation) bool {
	return op.writtenKeys&(other.readKeys|other.writtenKeys)|op.readKeys&other.writtenKeys != 0
}

// hiddenBy tells whether all that an operation does is overwritten, unseen, by a later one.
func (op *modelOperation) hiddenBy(later *modelOperation) bool {
	for i := range op.steps {
		if op.steps[i].offset != op.steps[0].offset {
			return false
		}
	}
	for i := range later.steps {
		if s := &later.steps[i]; s.offset == op.steps[0].offset {
			return s.kind == stepWrite
		}
	}
	return false
}

type model struct {
	ops     []modelOperation
	keys    []string
	values  []string // values[number-1]
	numbers map[string]uint32
	merged  map[mergeKey]uint32 // results of merges that were computed before
	bytes   int                 // in values and merged
	buffer  []byte
	seed    maphash.Seed
	start   string

	contents     map[cell]int32 // each value that is read somewhere
	contentParts [][]int32
	parts        map[content]int32
}

type mergeKey struct {
	kind   stepKind
	before uint32
	value  uint32
	delta  int64
}

// A cell is a value in the place of a key.
type cell struct {
	offset int
	number uint32
}

// bytesPerNode is about what an entry of a hash map costs beside its key.
const bytesPerNode = 64

// anyValue is the number of a value that is not known yet; the first read tells it. A history whose
// beginning was left out starts with it.
const anyValue = ^uint32(0)

// newModel compiles operations whose keys are all among keys. The store is empty when they begin,
// or anything if midway.
func newModel(ops []operation, keys []string, midway bool) *model {
	m := &model{
		ops:      make([]modelOperation, len(ops)),
		keys:     keys,
		numbers:  make(map[string]uint32),
		merged:   make(map[mergeKey]uint32),
		buffer:   make([]byte, 4*len(keys)),
		seed:     maphash.MakeSeed(),
		contents: make(map[cell]int32),
		parts:    make(map[content]int32),
	}
	first := byte(0)
	if midway {
		first = 0xff
	}
	m.start = strings.Repeat(string([]byte{first}), 4*len(keys))
	places := make(map[string]int, len(keys))
	for i, key := range keys {
		places[key] = 4 * i
	}
	for i := range ops {
		op := &m.ops[i]
		op.optional, op.pure, op.source = ops[i].optional, true, &ops[i]
		for j := range ops[i].steps {
			s := &ops[i].steps[j]
			op.add(modelStep{kind: s.kind, offset: places[s.key], value: m.number(s.value),
				delta: s.delta})
		}
	}
	return m
}

func (op *modelOperation) add(s modelStep) {
	op.steps = append(op.steps, s)
	bit := uint64(1) << (s.offset / 4 % 64)
	if s.kind != stepWrite {
		op.readKeys |= bit
	}
	if s.kind != stepRead && s.kind != stepNever {
		op.writtenKeys |= bit
		op.pure = false
	}
}

// infer prepares what the search wants to know about values of a whole history.
func (m *model) infer() {
	kinds := keyKinds(m.sources())
	writers := make(map[int32]int) // steps that write a part
	for i := range m.ops {
		op := &m.ops[i]
		for j := range op.source.steps {
			s := &op.source.steps[j]
			if s.reads() || kinds[s.key] == keyCounter || kinds[s.key] == keyGrowing {
				continue
			}
			for _, part := range m.partsOf(s, kinds[s.key]) {
				op.makes = append(op.makes, part)
				writers[part]++
			}
		}
	}
	expected := make(map[int32]uint32)
	for i := range m.ops {
		op := &m.ops[i]
		for j := range op.source.steps {
			s, kind := &op.source.steps[j], kinds[op.source.steps[j].key]
			if s.kind != stepRead || kind == keyCounter || writesKey(op.source.steps[:j], s.key) {
				continue
			}
			at := cell{op.steps[j].offset, op.steps[j].value}
			id, known := m.contents[at]
			if !known {
				id = int32(len(m.contentParts))
				m.contents[at] = id
				m.contentParts = append(m.contentParts, m.partsOf(s, kind))
			}
			op.needs = append(op.needs, id)
			if !known && kind == keyList && s.value != nil && !op.optional {
				m.expectPrefixes(*s.value, m.contentParts[id], expected)
			}
		}
	}
	for i := range m.ops {
		for j := range m.ops[i].steps {
			s := &m.ops[i].source.steps[j]
			if s.kind != stepAppend || kinds[s.key] != keyList {
				continue
			}
			if parts := m.partsOf(s, keyList); len(parts) == 1 && writers[parts[0]] == 1 {
				m.ops[i].steps[j].expect = expected[parts[0]]
			}
		}
	}
}

// expectPrefixes notes for each element of a list what the list was when it was appended.
func (m *model) expectPrefixes(list string, parts []int32, expected map[int32]uint32) {
	end := 0
	for _, part := range parts {
		if next := strings.IndexByte(list[end:], ','); next >= 0 {
			end += next
		} else {
			end = len(list)
		}
		if expected[part] == 0 {
			prefix := list[:end]
			expected[part] = m.number(&prefix)
		}
		end++
	}
}

func (m *model) sources() []operation {
	ops := make([]operation, len(m.ops))
	for i := range m.ops {
		ops[i] = *m.ops[i].source
	}
	return ops
}

// partsOf returns the parts of a step's value.
func (m *model) partsOf(s *step, kind keyKind) []int32 {
	var found []int32
	for _, text := range partsOf(s.value, kind) {
		part, ok := m.parts[content{s.key, text}]
		if !ok {
			part = int32(len(m.parts))
			m.parts[content{s.key, text}] = part
		}
		found = append(found, part)
	}
	return found
}

func number(state string, offset int) uint32 {
	return binary.LittleEndian.Uint32([]byte(state[offset : offset+4]))
}

func (m *model) number(value *string) uint32 {
	if value == nil {
		return 0
	}
	found, ok := m.numbers[*value]
	if !ok {
		m.values = append(m.values, *value)
		found = uint32(len(m.values))
		m.numbers[*value] = found
	}
	return found
}

// apply returns whether an operation's results fit a state, and the state after it.
func (m *model) apply(state string, op *modelOperation) (bool, string) {
	changed := false
	now := m.buffer
	copy(now, state)
	for i := range op.steps {
		s := &op.steps[i]
		at := now[s.offset : s.offset+4]
		before := binary.LittleEndian.Uint32(at)
		after := before
		switch s.kind {
		case stepRead:
			if after = s.value; before != after && before != anyValue {
				return false, state
			}
		case stepWrite:
			after = s.value
		case stepAppend, stepAdd:
			if after = m.merge(s, before); s.expect != 0 && after != s.expect {
				return false, state
			}
		default:
			return false, state
		}
		if after != before {
			binary.LittleEndian.PutUint32(at, after)
			changed = true
		}
	}
	if changed {
		return true, string(now)
	}
	return true, state
}

func (m *model) merge(s *modelStep, before uint32) uint32 {
	if before == anyValue {
		return anyValue
	}
	key := mergeKey{s.kind, before, s.value, s.delta}
	if found, ok := m.merged[key]; ok {
		return found
	}
	old := ""
	if before != 0 {
		old = m.values[before-1]
	}
	value := ""
	if s.kind == stepAppend {
		value = appendTo(old, before != 0, m.values[s.value-1])
	} else {
		value = addTo(old, s.delta)
	}
	found := m.number(&value)
	m.merged[key] = found
	m.bytes += len(value) + 2*bytesPerNode
	return found
}

// porcupine returns the model as porcupine wants it. There an operation with an unknown outcome
// always fits, and has an effect if its reads do; not to have happened is to come last.
func (m *model) porcupine() (porcupine.Model, []porcupine.Operation) {
	history := make([]porcupine.Operation, len(m.ops))
	for i := range m.ops {
		source := m.ops[i].source
		history[i] = porcupine.Operation{Input: &m.ops[i], Call: source.call, Return: source.ret,
			Metadata: source}
	}
	setRows(history)
	return porcupine.Model{
		Init: func() interface{} { return m.start },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op := input.(*modelOperation)
			fits, after := m.apply(state.(string), op)
			return fits || op.optional, after
		},
		Equal: func(a, b interface{}) bool { return a.(string) == b.(string) },
		Hash:  func(state interface{}) uint64 { return maphash.String(m.seed, state.(string)) },
		DescribeOperation: func(input, _ interface{}) string {
			return input.(*modelOperation).source.describe()
		},
		DescribeState: func(state interface{}) string { return m.describe(state.(string)) },
		DescribeOperationMetadata: func(source interface{}) string {
			op := source.(*operation)
			return fmt.Sprintf("line %d, client %d", op.line, op.client)
		},
	}, history
}

// setRows gives each operation a row of porcupine's page: one a client, more if its operations
// overlap, as those with an unknown outcome do.
func setRows(history []porcupine.Operation) {
	sort.SliceStable(history, func(i, j int) bool { return history[i].Call < history[j].Call })
	type row struct {
		client int
		busy   int64
	}
	var rows []row
	for i := range history {
		h := &history[i]
		client := h.Metadata.(*operation).client
		for h.ClientId = 0; h.ClientId < len(rows); h.ClientId++ {
			if r := rows[h.ClientId]; r.client == client && r.busy < h.Call {
				break
			}
		}
		if h.ClientId == len(rows) {
			rows = append(rows, row{})
		}
		rows[h.ClientId] = row{client, h.Return}
	}
}

func (m *model) describe(state string) string {
	var parts []string
	for i, key := range m.keys {
		switch value := number(state, 4*i); value {
		case 0:
		case anyValue:
			parts = append(parts, show(key)+"=?")
		default:
			parts = append(parts, show(key)+"="+show(m.values[value-1]))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func (op *operation) describe() string {
	parts := make([]string, 0, len(op.steps))
	for i := range op.steps {
		parts = append(parts, op.steps[i].describe())
	}
	text := strings.Join(parts, "; ")
	if op.optional {
		text += " (outcome open)"
	}
	return text
}

func (s *step) describe() string {
	key, value := show(s.key), "nothing"
	if s.value != nil {
		value = show(*s.value)
	}
	switch {
	case s.kind == stepRead:
		return key + " is " + value
	case s.kind == stepWrite && s.value == nil:
		return "delete " + key
	case s.kind == stepWrite:
		return "put " + key + "=" + value
	case s.kind == stepAppend:
		return "append " + key + "," + value
	case s.kind == stepAdd:
		return fmt.Sprintf("add %s%+d", key, s.delta)
	}
	return key + " is out of order, out of bounds or over the limit"
}

// show quotes a value, shortened, and shows eight bytes that are no text as a counter.
func show(value string) string {
	const most = 60
	if len(value) == 8 && strings.IndexFunc(value, strconv.IsPrint) < 0 {
		return "#" + strconv.FormatInt(int64(binary.LittleEndian.Uint64([]byte(value))), 10)
	}
	if len(value) > most {
		return strconv.QuoteToASCII(value[:most]) + fmt.Sprintf("...(%d bytes)", len(value))
	}
	return strconv.QuoteToASCII(value)
}
