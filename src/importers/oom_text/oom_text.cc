#include "importers/oom_text/oom_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace plimsoll {
namespace {

struct Mark {
  std::string_view words;
  bool is_mps;
};
constexpr std::string_view kWrongSize = "more than 1EB memory";  // other_failures.h
constexpr std::array<Mark, 3> kMarks = {{{"out of memory. Tried to allocate ", false},
                                         {"out of memory (MPS allocated: ", true},
                                         {"out of memory) Currently allocated : ", false}}};

constexpr size_t kLongestEcho = 60;  // of what a message quotes
constexpr size_t kLongestKind = 16;  // "CUDA"; real ones have four letters at most

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// One line without runs of spaces: terminals and forums wrap the message.
std::string unwrapped(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (!is_space(c))
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

// The message as a line, and sizes in it by the words before or behind them.
class Message {
 public:
  explicit Message(std::string line) : line_(std::move(line)) {}

  std::optional<Bytes> size_behind(std::string_view words) const {
    const size_t at = line_.find(words);
    return at == std::string::npos ? std::nullopt : size_at(at + words.size());
  }
  // "8.50 GiB already allocated": the last two words before it are a number and its unit.
  std::optional<Bytes> size_before(std::string_view words) const {
    const std::optional<size_t> at = begin_before(words);
    return at ? size_at(*at) : std::nullopt;
  }
  // A difference of two counters: of a larger one from a smaller it is written as what 2^64 bytes are more.
  std::optional<Bytes> difference_before(std::string_view words) const {
    const std::optional<size_t> at = begin_before(words);
    if (!at) return std::nullopt;
    const std::optional<Bytes> below_zero = wrapped(std::string_view(line_).substr(*at));
    return below_zero ? below_zero : size_at(*at);
  }
  // What a process uses, as the driver says; nothing where it doesn't (is_unmeasured()).
  std::optional<Bytes> use_behind(std::string_view words) const {
    const size_t at = line_.find(words);
    if (at == std::string::npos || is_unmeasured(at + words.size())) return std::nullopt;
    return size_at(at + words.size());
  }
  // The first figure that is no size: "nan GiB", a negative one, one beyond all machines.
  const std::optional<std::string>& unreadable() const { return unreadable_; }
  bool has(std::string_view words) const { return line_.find(words) != std::string::npos; }

  std::optional<int> device() const {
    for (const std::string_view words : {" GPU ", "(GPU ", "(NPU ", " Device "}) {
      const size_t at = line_.find(words);
      if (at == std::string::npos) continue;
      const char* const first = line_.data() + at + words.size();
      int number = 0;
      if (std::from_chars(first, line_.data() + line_.size(), number).ec == std::errc()) return number;
    }
    return std::nullopt;
  }

  // "PYTORCH_CUDA_ALLOC_CONF" of "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True".
  std::string settings_variable() const {
    constexpr std::string_view kEnd = "_ALLOC_CONF", kStart = "PYTORCH";
    const size_t at = line_.find(kEnd);
    if (at == std::string::npos) return {};
    size_t begin = at;
    while (begin > 0 && ((line_[begin - 1] >= 'A' && line_[begin - 1] <= 'Z') || line_[begin - 1] == '_'))
      --begin;
    const std::string name = line_.substr(begin, at + kEnd.size() - begin);
    return name.starts_with(kStart) && name.size() <= kLongestEcho ? name : std::string();
  }

  // "Process 47694 has 44.17 GiB memory in use." Those that are measured.
  std::vector<OutOfMemoryMessage::Process> processes() const {
    std::vector<OutOfMemoryMessage::Process> all;
    constexpr std::string_view kProcess = "Process ", kHas = " has ";
    for (size_t at = line_.find(kProcess); at != std::string::npos; at = line_.find(kProcess, at + 1)) {
      const char* const first = line_.data() + at + kProcess.size();
      int64_t id = 0;
      const auto [end, error] = std::from_chars(first, line_.data() + line_.size(), id);
      const auto behind = static_cast<size_t>(end - line_.data());
      if (error != std::errc() || std::string_view(line_).substr(behind, kHas.size()) != kHas) continue;
      if (is_unmeasured(behind + kHas.size())) continue;
      if (const std::optional<Bytes> in_use = size_at(behind + kHas.size())) all.push_back({id, *in_use});
    }
    return all;
  }
  int64_t unmeasured_processes() const {
    const std::string words = std::string(kUnmeasured) + " memory in use";
    int64_t count = 0;
    for (size_t at = line_.find(words); at != std::string::npos; at = line_.find(words, at + 1)) ++count;
    return count;
  }

 private:
  // NVML_VALUE_NOT_AVAILABLE, all bits set, as format_size() writes it: NVML measures no process under WDDM,
  // as in WSL 2, nor in some virtual machines. Source: nvml.h, nvmlProcessInfo_t.
  static constexpr std::string_view kUnmeasured = "17179869184.00 GiB";
  bool is_unmeasured(size_t at) const { return std::string_view(line_).substr(at).starts_with(kUnmeasured); }

  // Of "17179869183.00 GiB" -1 GiB.
  static std::optional<Bytes> wrapped(std::string_view text) {
    constexpr double kAll = 17179869184.0, kHalf = kAll / 2;  // GiB
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
    if (error != std::errc() || !unit.starts_with(" GiB") || number < kHalf || number > kAll)
      return std::nullopt;
    return Bytes{static_cast<int64_t>((number - kAll) * static_cast<double>(kGiB.value))};
  }

  // Where the size begins that stands before the words.
  std::optional<size_t> begin_before(std::string_view words) const {
    const size_t at = line_.find(words);
    if (at == std::string::npos || at < 2 || line_[at - 1] != ' ') return std::nullopt;
    const size_t unit = line_.rfind(' ', at - 2);
    if (unit == std::string::npos || unit == 0) return std::nullopt;
    size_t number = unit;
    constexpr std::string_view kBefore = " ([;,";
    while (number > 0 && kBefore.find(line_[number - 1]) == std::string_view::npos) --number;
    return number;
  }

  // A number and its unit, as format_size() writes them: "512 bytes", "20.00 MiB". Until 2.4 that of MPS
  // wrote "GB" for 2^30.
  std::optional<Bytes> size_at(size_t at) const {
    const std::string_view rest = std::string_view(line_).substr(at);
    size_t length = 0, words = 0;
    while (length < rest.size() && (rest[length] != ' ' || ++words < 2)) ++length;
    std::string_view size = rest.substr(0, length);
    while (!size.empty() &&
           (size.back() == '.' || size.back() == ';' || size.back() == ',' || size.back() == ')'))
      size.remove_suffix(1);
    std::string unit(size);
    if (unit.ends_with("KB") || unit.ends_with("MB") || unit.ends_with("GB"))
      unit.insert(unit.size() - 1, "i");
    const std::optional<Bytes> bytes = parse_bytes(unit);
    if (bytes && bytes->value >= 0 && !bytes->is_saturated()) return bytes;
    if (words == 2 && is_figure(size) && !unreadable_) unreadable_ = size.substr(0, kLongestEcho);
    return std::nullopt;
  }

  // A number, whatever it is, and a unit.
  static bool is_figure(std::string_view text) {
    const std::string_view unit = text.substr(std::min(text.rfind(' '), text.size()));
    constexpr std::array<std::string_view, 8> kUnits = {" bytes", " KiB", " MiB", " GiB",
                                                        " KB",    " MB",  " GB",  " B"};
    return std::ranges::find(kUnits, unit) != kUnits.end();
  }

  std::string line_;
  mutable std::optional<std::string> unreadable_;
};

// "(GPU 0; 3.95 GiB total capacity; 1.72 GiB already allocated; ...": before 2.1.
void read_in_brackets(const Message& m, OutOfMemoryMessage& message) {
  message.wording = OomWording::kBefore21;
  message.capacity = m.size_before("total capacity;");
  message.allocated = m.size_before("already allocated;");
  message.free = m.size_before("free;");
  message.reserved_unallocated = m.size_before("cached)");
  if (message.reserved_unallocated) message.wording = OomWording::kBefore15;
  message.reserved = m.size_before("reserved in total by PyTorch");
  if (message.reserved && message.allocated)
    message.reserved_unallocated = std::max(*message.reserved - *message.allocated, Bytes{});
}

void read_sentences(const Message& m, OutOfMemoryMessage& message) {
  message.capacity = m.size_behind("has a total capacity of ");
  if (!message.capacity) message.capacity = m.size_behind("has a total capacty of ");  // 2.1.0
  message.free = m.size_behind("of which ");
  message.in_use = m.use_behind("this process has ");
  message.processes = m.processes();
  message.unmeasured = m.unmeasured_processes();
  message.allocated = m.size_behind("Of the allocated memory ");
  message.private_pools = m.size_before("allocated in private pools");
  message.reserved_unallocated = m.difference_before("is reserved by PyTorch but unallocated");
}

// Without a memory fraction the limit is the largest number there is, SIZE_MAX.
constexpr std::string_view kNoFraction = "user-supplied memory fraction) : 17179869184.00 GiB";
void read_async(const Message& m, OutOfMemoryMessage& message) {
  message.wording = OomWording::kAsync;
  message.allocated = m.size_behind("Currently allocated : ");
  message.capacity = m.size_behind("Device limit : ");
  message.free = m.size_behind("Free (according to CUDA): ");
  if (!m.has(kNoFraction)) message.allowed = m.size_behind("user-supplied memory fraction) : ");
  if (message.allowed && message.capacity && *message.allowed >= *message.capacity) message.allowed.reset();
}

void read_mps(const Message& m, OutOfMemoryMessage& message) {
  message.wording = OomWording::kMps;
  message.allocated = m.size_behind("MPS allocated: ");
  message.allowed = m.size_behind("max allowed: ");
  const std::optional<Bytes> other = m.size_behind("other allocations: ");
  if (other && message.allocated) message.in_use = *message.allocated + *other;
}

std::optional<OutOfMemoryMessage> parse(const Message& m, std::string kind) {
  std::optional<Bytes> tried = m.size_behind("Tried to allocate ");
  if (!tried) tried = m.size_behind("Requested : ");
  if (!tried) return std::nullopt;
  OutOfMemoryMessage message{.kind = std::move(kind), .tried = *tried, .device = m.device()};
  message.allowed = m.size_before("allowed;");
  message.settings_variable = m.settings_variable();
  if (m.has("MPS allocated: "))
    read_mps(m, message);
  else if (m.has("Currently allocated : "))
    read_async(m, message);
  else if (m.has("total capacity;"))
    read_in_brackets(m, message);
  else
    read_sentences(m, message);
  return message;
}

SourcePosition place_of(std::string_view text, size_t at, const std::string& file) {
  const std::string_view before = text.substr(0, at);
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return {.file = file,
          .line = static_cast<int>(std::ranges::count(before, '\n')) + 1,
          .column = static_cast<int>(at - line_start) + 1};
}

// How many bytes of the text the words take, wrapped as they may be; 0: they don't stand here.
size_t length_of(std::string_view words, std::string_view text) {
  size_t next = 0;
  for (const char c : words) {
    if (is_space(c) && next < text.size() && is_space(text[next])) {
      while (next < text.size() && is_space(text[next])) ++next;
    } else if (next < text.size() && c == text[next]) {
      ++next;
    } else {
      return 0;
    }
  }
  return next;
}

struct Found {
  size_t at = std::string_view::npos;
  size_t length = 0;
  bool is_mps = false;
};

Found find_mark(std::string_view text, size_t from) {
  constexpr std::string_view kFirst = "out";
  for (size_t at = text.find(kFirst, from); at != std::string_view::npos; at = text.find(kFirst, at + 1))
    for (const Mark& mark : kMarks)
      if (const size_t length = length_of(mark.words, text.substr(at));
          length > 0 && length_of(kWrongSize, text.substr(at + length)) == 0)
        return {.at = at, .length = length, .is_mps = mark.is_mps};
  return {};
}

// "CUDA" of "CUDA out of memory": the word before the mark. That of cudaMallocAsync has none.
std::string kind_of(std::string_view text, const Found& mark) {
  if (mark.is_mps) return "MPS";
  size_t end = mark.at;
  if (end > 0 && text[end - 1] == '(') return "CUDA";
  while (end > 0 && is_space(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && text[begin - 1] >= 'A' && text[begin - 1] <= 'Z' && end - begin <= kLongestKind)
    --begin;
  const bool is_word = end - begin <= kLongestKind;
  return is_word ? std::string(text.substr(begin, end - begin)) : std::string();
}

void add(std::vector<OutOfMemoryMessage>& all, OutOfMemoryMessage message) {
  for (OutOfMemoryMessage& known : all) {
    message.times = known.times;
    if (known != message) continue;
    ++known.times;
    return;
  }
  message.times = 1;
  all.push_back(std::move(message));
}

}  // namespace

bool sniff_oom_text(std::string_view text) { return find_mark(text, 0).at != std::string_view::npos; }

Result<std::vector<OutOfMemoryMessage>> read_oom_text(std::string_view text, const std::string& file) {
  std::vector<OutOfMemoryMessage> all;
  const Found first = find_mark(text, 0);
  Found mark = first;
  if (mark.at == std::string_view::npos)
    return fail(
        {.position = {.file = file},
         .message = "holds no out-of-memory error of PyTorch",
         .expected = "a text such as \"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has ...\""});
  while (mark.at != std::string_view::npos) {
    const Found next = find_mark(text, mark.at + mark.length);
    const size_t end = std::min({next.at, text.size(), mark.at + kLongestOomMessage});
    const Message words(unwrapped(text.substr(mark.at, end - mark.at)));
    const std::optional<OutOfMemoryMessage> message = parse(words, kind_of(text, mark));
    if (words.unreadable())
      return fail({.position = place_of(text, mark.at, file),
                   .message = fmt::format("the out-of-memory error has a figure that can't be read: \"{}\"",
                                          *words.unreadable()),
                   .expected = "sizes as PyTorch writes them, such as 20.00 MiB"});
    if (message) add(all, *message);
    if (all.size() > kMostOomMessages)
      return fail({.position = place_of(text, mark.at, file),
                   .message = "too many different out-of-memory errors",
                   .expected = fmt::format("at most {}", kMostOomMessages)});
    mark = next;
  }
  return all;
}

}  // namespace plimsoll
