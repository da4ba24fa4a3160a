package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The tests that draw histories print their seed; `go test -seed N -rounds 1` starts there.
var (
	firstSeed  = flag.Int64("seed", 1, "seed of the first history")
	roundShare = flag.Int("rounds", 100, "percent of the histories")
	writeTo    = flag.String("write", "", "folder for TestWriteHistories")
)

var testLimits = limits{2 * time.Minute, 1 << 30}

// overSeeds calls a test with one seed after the other.
func overSeeds(rounds int64, test func(seed int64)) {
	for i := int64(0); i*100 < rounds*int64(*roundShare); i++ {
		test(*firstSeed + i)
	}
}

func mustRead(t testing.TB, text string) *history {
	t.Helper()
	h, err := readHistory(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wants checks one history, given as lines without client; clients are numbered by line.
func wants(t *testing.T, name string, want verdict, lines ...string) {
	t.Helper()
	text := ""
	for i, line := range lines {
		text += fmt.Sprintf(`{"client":%d,%s}`, i, line) + "\n"
	}
	r := check(mustRead(t, text), testLimits)
	if r.verdict != want {
		t.Errorf("%s: verdict %d, want %d\n%s", name, r.verdict, want, text)
	}
	if r.verdict == violating && !r.violation.confirmed {
		t.Errorf("%s: not confirmed", name)
	}
}

const (
	initX = `"call":1,"return":2,"op":"put","key":"x","value":"0"`
	initY = `"call":1,"return":2,"op":"put","key":"y","value":"0"`
	putX  = `"call":10,"return":20,"op":"put","key":"x","value":"1"`
)

// Goal: each kind of operation is understood. Method: small histories whose verdict is plain.
// Mutation: in the model, take any step for another, or ignore it.
func TestKnownHistories(t *testing.T) {
	ok, bad := linearizable, violating
	get := func(call, ret int, key, result string) string {
		return fmt.Sprintf(`"call":%d,"return":%d,"op":"get","key":"%s","result":%s`, call, ret, key,
			result)
	}

	wants(t, "read of nothing", ok, get(1, 2, "x", `null`))
	wants(t, "read of what nobody wrote", bad, get(1, 2, "x", `"1"`))
	wants(t, "fresh read", ok, initX, putX, get(21, 22, "x", `"1"`))
	wants(t, "stale read", bad, initX, putX, get(21, 22, "x", `"0"`))
	wants(t, "either, while the write runs", ok, initX, putX, get(12, 13, "x", `"0"`),
		get(14, 15, "x", `"1"`))
	wants(t, "new value, then old", bad, initX, putX, get(12, 13, "x", `"1"`),
		get(14, 15, "x", `"0"`))
	wants(t, "touching intervals overlap", ok, initX, putX, get(20, 22, "x", `"0"`))
	wants(t, "empty is not missing", bad, `"call":1,"return":2,"op":"put","key":"x","value":""`,
		get(3, 4, "x", `null`))
	wants(t, "deleted", ok, initX, `"call":3,"return":4,"op":"delete","key":"x"`,
		get(5, 6, "x", `null`))
	wants(t, "read after delete", bad, initX, `"call":3,"return":4,"op":"delete","key":"x"`,
		get(5, 6, "x", `"0"`))

	appendA := `"call":10,"return":20,"op":"merge","key":"x","operator":"append","operand":"a"`
	appendB := `"call":10,"return":20,"op":"merge","key":"x","operator":"append","operand":"b"`
	wants(t, "appends in one order", ok, initX, appendA, appendB, get(30, 31, "x", `"0,b,a"`))
	wants(t, "append to nothing", ok, appendA, get(30, 31, "x", `"a"`))
	wants(t, "append to an empty value", ok, `"call":1,"return":2,"op":"put","key":"x","value":""`,
		appendA, get(30, 31, "x", `",a"`))
	wants(t, "appends in two orders", bad, appendA, appendB, get(11, 12, "x", `"a"`),
		get(13, 14, "x", `"b,a"`))
	wants(t, "lost append", bad, appendA, appendB, get(30, 31, "x", `"b"`))

	add := func(n string) string {
		return `"call":10,"return":20,"op":"merge","key":"x","operator":"add","operand":` + n
	}
	number := func(b string) string { return `"` + b + strings.Repeat(`\u0000`, 7) + `"` }
	wants(t, "sum", ok, add("7"), add("-2"), get(30, 31, "x", number(`\u0005`)))
	wants(t, "least number", ok, add("-9223372036854775808"),
		get(30, 31, "x", `"`+strings.Repeat(`\u0000`, 7)+`\u0080"`))
	wants(t, "sum over what is no number", ok, initX, add("7"), get(30, 31, "x", number(`\u0007`)))
	wants(t, "lost update", bad, add("7"), add("2"), get(30, 31, "x", number(`\u0007`)))

	batch := `"call":10,"return":20,"op":"batch","items":[{"op":"put","key":"x","value":"1"},` +
		`{"op":"get","key":"x","result":%s},{"op":"put","key":"y","value":"1"}]`
	both := `"call":12,"return":13,"op":"multiget","keys":["x","y"],"results":[%s]`
	wants(t, "batch reads itself", ok, initX, initY, fmt.Sprintf(batch, `"1"`))
	wants(t, "batch does not read itself", bad, initX, initY, fmt.Sprintf(batch, `"0"`))
	wants(t, "batch seen", ok, initX, initY, fmt.Sprintf(batch, `"1"`),
		fmt.Sprintf(both, `"1","1"`))
	wants(t, "batch not seen yet", ok, initX, initY, fmt.Sprintf(batch, `"1"`),
		fmt.Sprintf(both, `"0","0"`))
	wants(t, "half a batch", bad, initX, initY, fmt.Sprintf(batch, `"1"`),
		fmt.Sprintf(both, `"1","0"`))
	wants(t, "half a batch, by two reads", bad, initX, initY, fmt.Sprintf(batch, `"1"`),
		get(12, 13, "y", `"1"`), get(14, 15, "x", `"0"`))
	wants(t, "one key twice, two values", bad, initX, putX,
		`"call":10,"return":20,"op":"multiget","keys":["x","x"],"results":["0","1"]`)

	scan := `"call":30,"return":31,"op":"range",%s`
	wants(t, "range", ok, initX, initY, putX,
		fmt.Sprintf(scan, `"begin":"x","end":"z","pairs":[["x","1"],["y","0"]]`))
	wants(t, "end is not in it", ok, initX, initY,
		fmt.Sprintf(scan, `"begin":"","end":"y","limit":0,"pairs":[["x","0"]]`))
	wants(t, "end is in it", bad, initX, initY,
		fmt.Sprintf(scan, `"begin":"","end":"y","pairs":[["x","0"],["y","0"]]`))
	wants(t, "without an end", bad, initX, initY,
		fmt.Sprintf(scan, `"begin":"x","end":null,"pairs":[["x","0"]]`))
	wants(t, "limit", ok, initX, initY,
		fmt.Sprintf(scan, `"begin":"x","limit":1,"pairs":[["x","0"]]`))
	wants(t, "limit skips a key", bad, initX, initY,
		fmt.Sprintf(scan, `"begin":"x","limit":1,"pairs":[["y","0"]]`))
	wants(t, "over the limit", bad, initX, initY,
		fmt.Sprintf(scan, `"begin":"x","limit":1,"pairs":[["x","0"],["y","0"]]`))
	wants(t, "wrong order", bad, initX, initY,
		fmt.Sprintf(scan, `"begin":"x","pairs":[["y","0"],["x","0"]]`))
	wants(t, "a key twice", bad, initX,
		fmt.Sprintf(scan, `"begin":"x","pairs":[["x","0"],["x","0"]]`))
	wants(t, "before the begin", bad, initX,
		fmt.Sprintf(scan, `"begin":"y","pairs":[["x","0"]]`))
	wants(t, "phantom", bad, initX, fmt.Sprintf(scan, `"begin":"x","pairs":[["x","0"],["y","7"]]`))
	wants(t, "range sees half a batch", bad, initX, initY, fmt.Sprintf(batch, `"1"`),
		`"call":12,"return":13,"op":"range","begin":"x","pairs":[["x","0"],["y","1"]]`)

	snapshot := `"call":5,"return":6,"op":"snapshot","reads":[{"op":"get","key":"x","result":%s},` +
		`{"op":"multiget","keys":["y"],"results":[%s]},{"op":"range","begin":"x","pairs":%s}]`
	wants(t, "snapshot", ok, initX, initY, putX,
		fmt.Sprintf(snapshot, `"0"`, `"0"`, `[["x","0"],["y","0"]]`))
	wants(t, "snapshot sees a later write", bad, initX, initY, putX,
		fmt.Sprintf(snapshot, `"1"`, `"0"`, `[["x","1"],["y","0"]]`))
	wants(t, "snapshot changes", bad, initX, initY,
		`"call":4,"return":20,"op":"put","key":"x","value":"1"`,
		fmt.Sprintf(snapshot, `"0"`, `"0"`, `[["x","1"],["y","0"]]`))

	txn := func(call int, read, result, write, rest string) string {
		return fmt.Sprintf(`"call":%d,"return":%d,%s"op":"txn","reads":[{"op":"get","key":"%s",`+
			`"result":%s}],"writes":[{"op":"put","key":"%s","value":"%d"}]`, call, call+10, rest, read,
			result, write, call)
	}
	wants(t, "transactions one after the other", ok, initX, txn(10, "x", `"0"`, "x", ""),
		txn(12, "x", `"10"`, "x", ""))
	wants(t, "lost update by a transaction", bad, initX, txn(10, "x", `"0"`, "x", ""),
		txn(12, "x", `"0"`, "x", ""))
	wants(t, "write skew", bad, initX, initY, txn(10, "x", `"0"`, "y", ""),
		txn(12, "y", `"0"`, "x", ""))
	wants(t, "no skew", ok, initX, initY, txn(10, "x", `"0"`, "y", ""),
		txn(12, "y", `"10"`, "x", ""))
	wants(t, "transaction does not read itself", bad, txn(10, "x", `"10"`, "x", ""))
	wants(t, "aborted", ok, initX, txn(10, "x", `"0"`, "x", `"status":"aborted",`),
		txn(12, "x", `"0"`, "x", ""))
	wants(t, "dirty read", bad, initX, txn(10, "x", `"0"`, "x", `"status":"aborted",`),
		get(12, 13, "x", `"10"`))
	wants(t, "aborted reads tell nothing", ok, initX,
		txn(10, "x", `"7"`, "x", `"status":"aborted",`), get(30, 31, "x", `"0"`))

	lostPut := `"call":10,"op":"put","key":"x","value":"1"`
	wants(t, "unknown happened", ok, initX, lostPut, get(12, 13, "x", `"1"`))
	wants(t, "unknown did not happen", ok, initX, lostPut, get(12, 13, "x", `"0"`))
	wants(t, "unknown happened late", ok, initX, lostPut, get(90, 91, "x", `"0"`),
		get(92, 93, "x", `"1"`))
	wants(t, "unknown is undone", bad, initX, lostPut, get(90, 91, "x", `"1"`),
		get(92, 93, "x", `"0"`))
	wants(t, "unknown happened before its call", bad, initX, get(4, 5, "x", `"1"`), lostPut)
	wants(t, "unknown with a return", ok, initX,
		`"call":10,"return":11,"status":"unknown","op":"delete","key":"x"`, get(20, 21, "x", `"0"`),
		get(22, 23, "x", `null`))
	wants(t, "unknown get", ok, initX, `"call":10,"op":"get","key":"x"`)
	wants(t, "unknown is seen by an append's own read", ok, lostPut,
		`"call":20,"return":21,"op":"batch","items":[{"op":"merge","key":"x","operator":"append",`+
			`"operand":"a"},{"op":"get","key":"x","result":"1,a"}]`)
	wants(t, "unknown batch is atomic", bad, initX, initY,
		`"call":10,"op":"batch","items":[{"op":"put","key":"x","value":"1"},`+
			`{"op":"put","key":"y","value":"1"}]`, fmt.Sprintf(both, `"1","0"`))
	wants(t, "unknown batch is hidden in part", ok, initX, initY,
		`"call":10,"op":"batch","items":[{"op":"delete","key":"x"},{"op":"delete","key":"y"}]`,
		`"call":30,"return":31,"op":"put","key":"x","value":"2"`,
		`"call":40,"return":41,"op":"multiget","keys":["x","y"],"results":["2",null]`)
	wants(t, "unknown is seen by another unknown", ok, initX, initY,
		`"call":10,"op":"delete","key":"x"`, `"call":10,"op":"txn","reads":[{"op":"get","key":"x",`+
			`"result":null}],"writes":[{"op":"delete","key":"y"}]`,
		`"call":30,"return":31,"op":"batch","items":[{"op":"get","key":"y","result":null},`+
			`{"op":"put","key":"z","value":"1"}]`)
	wants(t, "unknown transaction may commit", ok, initX, initY,
		txn(10, "x", `"0"`, "y", `"status":"unknown",`), get(30, 31, "y", `"10"`))
	wants(t, "unknown transaction with outdated reads", bad, initX, initY,
		txn(10, "x", `"7"`, "y", `"status":"unknown",`), get(30, 31, "y", `"10"`))
}

// Goal: a wrong order is no proof. Method: each way to be wrong. Mutation: leave out any check in
// explains.
func TestExplains(t *testing.T) {
	h := mustRead(t, `{"client":0,"call":1,"return":2,"op":"put","key":"x","value":"1"}
{"client":1,"call":2,"return":4,"op":"put","key":"x","value":"2"}
{"client":2,"call":3,"return":5,"op":"get","key":"x","result":"2"}
{"client":3,"call":3,"op":"delete","key":"x"}
`)
	for _, c := range []struct {
		order []int32
		want  bool
	}{
		{[]int32{0, 1, 2}, true}, {[]int32{1, 0, 1, 2}, false}, {[]int32{0, 1, 2, 3}, true},
		{[]int32{0, 1, 3, 2}, false}, {[]int32{0, 1}, false}, {[]int32{0, 2, 1}, false},
		{[]int32{3, 0, 1, 2}, false}, {[]int32{1, 2, 0}, false}, {nil, false},
	} {
		if got := explains(h.ops, c.order); got != c.want {
			t.Errorf("%v: %v", c.order, got)
		}
	}
}

// Goal: an end of a history is violating only if it is so whatever came before. Method: known ends.
// Mutation: let a read of an unknown value leave it unknown, or begin with an empty store.
func TestMidway(t *testing.T) {
	read := func(client, call int, result string) string {
		return fmt.Sprintf(`{"client":%d,"call":%d,"return":%d,"op":"get","key":"x","result":"%s"}`,
			client, call, call+1, result) + "\n"
	}
	for _, c := range []struct {
		want verdict
		text string
	}{
		{linearizable, read(0, 10, "1") + read(0, 20, "1")},
		{violating, read(0, 10, "1") + read(0, 20, "2")},
		{linearizable, read(0, 10, "1") + `{"client":1,"call":12,"return":18,"op":"put","key":"x",` +
			`"value":"2"}` + "\n" + read(0, 20, "2")},
		{linearizable, `{"client":1,"call":1,"return":18,"op":"put","key":"x","value":"1"}` + "\n" +
			read(0, 10, "2") + read(0, 20, "2")},
		{violating, `{"client":1,"call":5,"return":7,"op":"put","key":"x","value":"1"}` + "\n" +
			read(0, 10, "2")},
		{linearizable, `{"client":1,"call":5,"return":7,"op":"merge","key":"x","operator":"append",` +
			`"operand":"b"}` + "\n" + read(0, 10, "a,b")},
	} {
		h := mustRead(t, c.text)
		m := newModel(since(h.ops, 5), []string{"x"}, true)
		if _, got := m.find(time.Now().Add(time.Minute), 1<<30); got != c.want {
			t.Errorf("verdict %d, want %d\n%s", got, c.want, c.text)
		}
	}
}

// Goal: keys are checked apart unless an operation joins them. Method: groups of known histories.
// Mutation: in components, join nothing.
func TestComponents(t *testing.T) {
	h := mustRead(t, `{"client":0,"call":1,"return":2,"op":"put","key":"a","value":"1"}
{"client":0,"call":3,"return":4,"op":"multiget","keys":["b","d"],"results":[null,null]}
{"client":0,"call":5,"return":6,"op":"range","begin":"d","end":"f","pairs":[["e","1"]]}
{"client":0,"call":7,"return":8,"op":"get","key":"f","result":null}
{"client":0,"call":7,"return":8,"op":"put","key":"dd","value":""}
`)
	if got, want := fmt.Sprint(components(h.ops)), "[[a] [b d dd e] [f]]"; got != want {
		t.Errorf("components %s, want %s", got, want)
	}
}

// draw returns a simulation with everything drawn from the seed but the bug.
func draw(seed int64, operations int) *simulation {
	random := rand.New(rand.NewSource(seed))
	s := &simulation{seed: seed, operations: operations, clients: 2 + random.Intn(15),
		keys: 1 + random.Intn(8), multi: random.Intn(60), resets: random.Intn(2) == 0}
	if random.Intn(2) == 0 {
		s.unknown = 1 + random.Intn(2)
	}
	return s
}

// Goal: a correct store passes, whatever its timing. Method: simulated histories of many shapes;
// also their beginnings, and their ends without the beginning. Mutation: in tighten, expand or
// search demand a little more than is true, say call < ret where they may be equal.
func TestCorrectStorePasses(t *testing.T) {
	overSeeds(250, func(seed int64) {
		s := draw(seed, 50+int(seed%5)*100)
		h := mustRead(t, s.run())
		if r := check(h, testLimits); r.verdict != linearizable {
			t.Errorf("seed %d: verdict %d", seed, r.verdict)
			if r.verdict == violating {
				t.Log(r.violation.describe())
			}
		}
		soon := time.Now().Add(time.Second / 4)
		moment := h.ops[s.random.Intn(len(h.ops))].call
		c := checker{ops: until(h.ops, moment), bytes: 1 << 30}
		if keys := allKeys(c.ops); c.search(keys, soon) == violating {
			t.Errorf("seed %d: violating until %d", seed, moment)
		}
		key := allKeys(h.ops)[s.random.Intn(len(allKeys(h.ops))):][:1]
		m := newModel(project(since(h.ops, moment), key), key, true)
		if _, found := m.find(soon, 1<<30); found == violating {
			t.Errorf("seed %d: violating since %d", seed, moment)
		}
	})
}

// Goal: every bug of the simulated store is found, and shown in a part that is small and that
// porcupine refuses, too. Method: for each bug, histories of many shapes. Mutation: switch the bug
// off.
func TestBugsAreFound(t *testing.T) {
	for _, b := range allBugs {
		count, found, confirmed, operations := 0, 0, 0, 0
		overSeeds(12, func(seed int64) {
			s := draw(seed, 500)
			s.bug, s.bugPercent, s.keys, s.multi = b, 50, 4, 60
			r := check(mustRead(t, s.run()), testLimits)
			count++
			if r.verdict == unknown {
				t.Errorf("%s, seed %d: unknown", b, seed)
			}
			if r.verdict == violating {
				found++
				operations += len(r.violation.ops)
				if r.violation.confirmed {
					confirmed++
				}
			}
		})
		t.Logf("%s: found in %d of %d, %d confirmed, in %d operations", b, found, count, confirmed,
			operations)
		if *roundShare >= 100 && (found*3 < count || confirmed*10 < found*9 || operations > found*40) {
			t.Errorf("%s: from seed %d", b, *firstSeed)
		}
	}
}

// Goal: the verdict is right on small histories of any kind, good or bad. Method: compare with all
// orders tried on a plain map, and with porcupine alone. Mutation: any line of tighten, infer, lost
// or loosen that decides something.
func TestSameAsAllOrders(t *testing.T) {
	var verdicts [2]int
	overSeeds(30000, func(seed int64) {
		random := rand.New(rand.NewSource(seed))
		s := &simulation{seed: seed, clients: 2 + random.Intn(3), operations: 3 + random.Intn(5),
			keys: 1 + random.Intn(4), multi: random.Intn(100), unknown: random.Intn(60),
			values: random.Intn(3), resets: random.Intn(2) == 0, bugPercent: 100,
			bug: append(allBugs, noBug)[random.Intn(len(allBugs)+1)]}
		text := s.run()
		if s.percent(70) {
			s.changeResult()
			text = s.text()
		}
		want := violating
		if anyOrder(s.lines, make([]bool, len(s.lines)), map[string]string{}) {
			want = linearizable
		}
		verdicts[want]++
		h := mustRead(t, text)
		if got := check(h, testLimits).verdict; got != want {
			t.Fatalf("seed %d: verdict %d, want %d\n%s", seed, got, want, text)
		}
		model, history := newModel(h.ops, allKeys(h.ops), false).porcupine()
		if got := porcupine.CheckOperations(model, history); got != (want == linearizable) {
			t.Fatalf("seed %d: porcupine says %v, want %d\n%s", seed, got, want, text)
		}
	})
	if *roundShare >= 100 && (verdicts[linearizable] < 5000 || verdicts[violating] < 5000) {
		t.Errorf("one-sided: %v", verdicts)
	}
}

// anyOrder tells whether some order of the lines that are not done explains them: the dumb model.
// It works on the recorded JSON and shares nothing with the checker but the types.
func anyOrder(lines []*line, done []bool, store map[string]string) bool {
	first, left := int64(1)<<62, false
	for i, l := range lines {
		if !done[i] && l.Return != nil && l.Status != "aborted" {
			left = true
			if *l.Return < first {
				first = *l.Return
			}
		}
	}
	if !left {
		return true
	}
	for i, l := range lines {
		if done[i] || l.Status == "aborted" || *l.Call > first {
			continue
		}
		s := simulation{store: make(map[string]string)}
		for k, v := range store {
			s.store[k] = v
		}
		if !s.agrees(&l.item) {
			continue
		}
		done[i] = true
		if anyOrder(lines, done, s.store) {
			return true
		}
		done[i] = false
	}
	return false
}

// agrees does an item on the store and tells whether the recorded results are those that come out.
func (s *simulation) agrees(it *item) bool {
	for _, items := range [][]item{it.Items, it.Reads, it.Writes} {
		for i := range items {
			if !s.agrees(&items[i]) {
				return false
			}
		}
	}
	if it.Items != nil || it.Reads != nil || it.Writes != nil {
		return true
	}
	again := *it
	s.apply(&again)
	if it.Result == nil && it.Results == nil && it.Pairs == nil {
		return true
	}
	recorded, _ := json.Marshal(it)
	now, _ := json.Marshal(&again)
	return string(recorded) == string(now)
}

// Goal: the limits hold, and what they stop is unknown. Method: a history that needs a long search,
// with little time and little memory. Mutation: ignore gaveUp.
func TestLimits(t *testing.T) {
	// Sums of different powers of two: every subset is a state of its own, and none is the result.
	text := ""
	for i := 0; i < 40; i++ {
		text += fmt.Sprintf(`{"client":%d,"call":1,"return":9,"op":"merge","key":"n","operator":"add",`+
			`"operand":%d}`+"\n", i, int64(1)<<i)
	}
	text += `{"client":99,"call":1,"return":9,"op":"get","key":"n","result":"none"}` + "\n"
	h := mustRead(t, text)
	start := time.Now()
	if r := check(h, limits{300 * time.Millisecond, 1 << 40}); r.verdict != unknown {
		t.Errorf("little time: verdict %d", r.verdict)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("little time: took %v", took)
	}
	if r := check(h, limits{time.Hour, 1 << 20}); r.verdict != unknown {
		t.Errorf("little memory: verdict %d", r.verdict)
	}
}

// Writes 2,000 histories to the folder given by -write, to time the command with.
func TestWriteHistories(t *testing.T) {
	if *writeTo == "" {
		t.Skip("no -write")
	}
	for seed := int64(0); seed < 2000; seed++ {
		s := draw(seed, 50+int(seed*977%1950))
		name := fmt.Sprintf("%s/%04d.jsonl", *writeTo, seed)
		if err := os.WriteFile(name, []byte(s.run()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What one history costs, with its reading.
func BenchmarkCheck(b *testing.B) {
	for _, shape := range []struct{ clients, operations, keys, multi int }{
		{4, 100, 4, 30}, {8, 300, 4, 0}, {8, 300, 4, 30}, {16, 1000, 8, 30}, {16, 2000, 8, 30},
	} {
		name := fmt.Sprintf("clients=%d/operations=%d/keys=%d/multi=%d", shape.clients,
			shape.operations, shape.keys, shape.multi)
		b.Run(name, func(b *testing.B) {
			var texts []string
			for seed := int64(0); seed < 20; seed++ {
				s := simulation{seed: seed, clients: shape.clients, operations: shape.operations,
					keys: shape.keys, multi: shape.multi, unknown: int(seed % 2)}
				texts = append(texts, s.run())
			}
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				if check(mustRead(b, texts[i%20]), testLimits).verdict != linearizable {
					b.Fatal("not linearizable")
				}
			}
		})
	}
}
