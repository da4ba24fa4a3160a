#include "pmem/sim_region.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/random.h"

namespace breccia::pmem {
namespace {

PageMemory must_allocate(std::uint64_t bytes) {
  auto memory = PageMemory::allocate(bytes);
  BRECCIA_ASSERT(memory.ok());
  return memory.take();
}

std::vector<std::size_t> changed_words(const Line& from, const Line& to) {
  std::vector<std::size_t> changed;
  for (std::size_t word = 0; word < kWordsPerLine; ++word) {
    if (from[word] != to[word]) changed.push_back(word);
  }
  return changed;
}

/// How many contents may follow `from` on the way to `to`, `to` included.
std::uint64_t steps_between(const Line& from, const Line& to) {
  return (1ULL << changed_words(from, to).size()) - 1;
}

/// `from` with the words of `to` whose bit in `subset` is set, counted over the changed words.
Line mix(const Line& from, const Line& to, std::uint64_t subset) {
  Line mixed = from;
  for (const std::size_t word : changed_words(from, to)) {
    if (subset & 1) mixed[word] = to[word];
    subset >>= 1;
  }
  return mixed;
}

}  // namespace

CrashImages::CrashImages(std::vector<std::byte> durable, std::vector<DirtyLine> lines)
    : durable_(std::move(durable)), lines_(std::move(lines)) {
  for (const DirtyLine& line : lines_) {
    BRECCIA_ASSERT(line.offset < durable_.size() && line.choices > 1);
    if (__builtin_mul_overflow(count_, line.choices, &count_)) {
      count_ = kCountMax;
      break;
    }
  }
}

CrashImages::DirtyLine::DirtyLine(std::uint64_t at, const Line& durable,
                                  const std::vector<Line>& history)
    : offset(at), choices(1), states{durable} {
  BRECCIA_ASSERT(offset % kLineBytes == 0 && !history.empty());
  states.insert(states.end(), history.begin(), history.end());
  for (std::size_t i = 0; i + 1 < states.size(); ++i) {
    choices += steps_between(states[i], states[i + 1]);
  }
}

Line CrashImages::DirtyLine::content(std::uint64_t choice) const {
  BRECCIA_ASSERT(choice < choices);
  std::size_t state = 0;
  while (choice > 0) {
    BRECCIA_ASSERT(state + 1 < states.size());
    const std::uint64_t steps = steps_between(states[state], states[state + 1]);
    if (choice <= steps) return mix(states[state], states[state + 1], choice);
    choice -= steps;
    ++state;
  }
  return states[state];
}

void CrashImages::put(std::vector<std::byte>& image, const DirtyLine& line,
                      std::uint64_t choice) const {
  const Line content = line.content(choice);
  BRECCIA_ASSERT(line.offset < image.size());
  // The last line of a region may be a part of one.
  const std::uint64_t bytes = std::min(kLineBytes, image.size() - line.offset);
  std::memcpy(image.data() + line.offset, &content, bytes);
}

void CrashImages::exhaust(const Visit& visit) const {
  std::vector<std::byte> image = durable_;
  std::vector<std::uint64_t> choice(lines_.size(), 0);
  for (;;) {
    visit(image);
    // Count up, one digit per line: the digits that wrap go back to the durable content.
    std::size_t digit = 0;
    while (digit < lines_.size() && ++choice[digit] == lines_[digit].choices) {
      choice[digit] = 0;
      put(image, lines_[digit], 0);
      ++digit;
    }
    if (digit == lines_.size()) return;
    put(image, lines_[digit], choice[digit]);
  }
}

void CrashImages::sampled(std::uint64_t seed, std::uint64_t samples, const Visit& visit) const {
  base::Random random(seed);
  std::vector<std::byte> latest = durable_;
  for (const DirtyLine& line : lines_) put(latest, line, line.choices - 1);
  visit(durable_);
  visit(latest);
  if (lines_.empty()) return;

  std::vector<std::byte> image = durable_;
  for (std::uint64_t i = 0; i < samples; ++i) {
    for (const DirtyLine& line : lines_) put(image, line, random.below(line.choices));
    visit(image);
  }
  // Evenly spaced lines from a random first one: all of them if `samples` allows.
  const std::uint64_t singles = std::min<std::uint64_t>(samples, lines_.size());
  const std::uint64_t first = random.below(lines_.size());
  image = durable_;
  for (std::uint64_t i = 0; i < singles; ++i) {
    const DirtyLine& line = lines_[(first + i * lines_.size() / singles) % lines_.size()];
    put(latest, line, random.below(line.choices));
    visit(latest);
    put(latest, line, 0);
    visit(latest);
    put(latest, line, line.choices - 1);
    put(image, line, line.choices - 1);
    visit(image);
    put(image, line, 0);
  }
}

void CrashImages::for_each(std::uint64_t seed, std::uint64_t samples, const Visit& visit) const {
  if (exhaustive()) {
    exhaust(visit);
  } else {
    sampled(seed, samples, visit);
  }
}

SimRegion::SimRegion(std::uint64_t bytes)
    : size_(bytes), memory_(must_allocate(bytes)), durable_(bytes, std::byte{0}) {}

SimRegion::SimRegion(const std::vector<std::byte>& image)
    : size_(image.size()), memory_(must_allocate(image.size())), durable_(image) {
  std::memcpy(memory_.data(), image.data(), image.size());
}

Line SimRegion::durable_line(std::uint64_t offset) const {
  BRECCIA_ASSERT(offset % kLineBytes == 0 && offset < size_);
  Line line{};
  std::memcpy(&line, durable_.data() + offset, std::min(kLineBytes, size_ - offset));
  return line;
}

void SimRegion::note_lines(std::uint64_t begin, std::uint64_t end) {
  BRECCIA_ASSERT(begin % kLineBytes == 0 && end <= lines_end(0, size_));
  for (std::uint64_t offset = begin; offset < end; offset += kLineBytes) {
    const Line now = load_line(memory_.data() + offset);
    const auto found = history_.find(offset);
    if (found != history_.end()) {
      if (found->second.back() != now) found->second.push_back(now);
    } else if (durable_line(offset) != now) {
      history_.emplace(offset, std::vector<Line>{now});
    }
  }
}

void SimRegion::note_stores() { note_lines(0, lines_end(0, size_)); }

CrashImages SimRegion::crash_images() {
  note_stores();
  std::vector<CrashImages::DirtyLine> lines;
  lines.reserve(history_.size());
  for (const auto& [offset, history] : history_) {
    lines.emplace_back(offset, durable_line(offset), history);
  }
  return CrashImages(durable_, std::move(lines));
}

Status SimRegion::persist(std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    BRECCIA_ASSERT(range.offset <= size_ && range.bytes <= size_ - range.offset);
  }
  const std::lock_guard lock(mutex_);
  // One crash point for all ranges: what it may leave is any choice for each of their lines.
  if (on_crash_point_) on_crash_point_(crash_images());
  if (persists_left_ == 0) return Status::IOError("injected failure");
  if (persists_left_ != kNeverFail) --persists_left_;
  for (const Range& range : ranges) make_durable(range);
  return Status::OK();
}

void SimRegion::make_durable(const Range& range) {
  const std::uint64_t begin = line_start(range.offset);
  const std::uint64_t end = lines_end(range.offset, range.bytes);
  note_lines(begin, end);
  const auto first = history_.lower_bound(begin);
  const auto last = history_.lower_bound(end);
  std::uint64_t lines_changed = 0;
  for (auto line = first; line != last; ++line) {
    BRECCIA_ASSERT(!line->second.empty() && line->first < size_);
    const std::uint64_t line_bytes = std::min(kLineBytes, size_ - line->first);
    std::memcpy(durable_.data() + line->first, &line->second.back(), line_bytes);
    ++lines_changed;
  }
  history_.erase(first, last);
  events_.push_back({range.offset, range.bytes, lines_changed});
}

}  // namespace breccia::pmem
