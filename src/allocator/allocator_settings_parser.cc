// The reader of PYTORCH_ALLOC_CONF. Stricter than PyTorch's where that would misread a typing error in
// silence.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "allocator/allocator_settings.h"

namespace plimsoll {
namespace {

struct Token {
  std::string text;  // without whitespace; one of , : [ ] stands alone
  int column = 1;    // 1-based, in the text as given
};

bool is_punctuation(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  bool extends_last = false;  // whitespace inside a word is dropped, as PyTorch does
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    if (is_punctuation(c) || !extends_last) {
      tokens.push_back({.text = std::string(1, c), .column = static_cast<int>(at) + 1});
    } else {
      tokens.back().text += c;
    }
    extends_last = !is_punctuation(c);
  }
  return tokens;
}

// One "key:value", the value a word or a list.
struct Entry {
  Token key;
  std::vector<Token> value;  // of a list the tokens between the brackets
  bool is_list = false;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view source)
      : source_(source), tokens_(tokens_of(text)), end_column_(static_cast<int>(text.size()) + 1) {}

  Result<AllocatorSettings> parse() {
    std::vector<Entry> entries;
    while (at_ < tokens_.size()) {
      if (tokens_[at_].text == ",") {
        ++at_;  // PyTorch lets a comma too many pass
        continue;
      }
      PLIMSOLL_TRY(entry, read_entry());
      entries.push_back(std::move(entry));
      if (at_ < tokens_.size() && tokens_[at_].text != ",") return wrong(tokens_[at_], "a comma or the end");
    }
    // The limits of other settings depend on this one, wherever it stands.
    for (const Entry& entry : entries) {
      if (entry.key.text == "large_segment_size_mb") PLIMSOLL_CHECK(read_large_segment_size(entry));
    }
    for (const Entry& entry : entries) PLIMSOLL_CHECK(apply(entry));
    // The threshold is a part of what the fraction allows: garbage_collect_cached_blocks() runs `if
    // set_fraction`.
    if (settings_.garbage_collection_threshold > 0 && !settings_.per_process_memory_fraction)
      settings_.without_effect.push_back("garbage_collection_threshold without per_process_memory_fraction");
    return std::move(settings_);
  }

 private:
  using Done = Result<bool>;  // true; an error says why not

  tl::unexpected<Error> wrong(const Token& token, std::string expected, std::string hint = {}) const {
    return fail({.position = {.file = std::string(source_), .line = 1, .column = token.column},
                 .message = fmt::format("\"{}\" is not what can stand here", token.text),
                 .expected = std::move(expected),
                 .hint = std::move(hint)});
  }
  tl::unexpected<Error> bad_value(const Entry& entry, std::string message, std::string expected) const {
    const int column = entry.value.empty() ? entry.key.column : entry.value.front().column;
    return fail(
        {.position = {.file = std::string(source_), .key = entry.key.text, .line = 1, .column = column},
         .message = std::move(message),
         .expected = std::move(expected)});
  }

  Result<Token> next(const char* expected) {
    if (at_ == tokens_.size()) return wrong({.text = "", .column = end_column_}, expected);
    return tokens_[at_++];
  }

  Result<Entry> read_entry() {
    PLIMSOLL_TRY(key, next("a setting's name"));
    if (is_punctuation(key.text[0])) return wrong(key, "a setting's name");
    Entry entry{.key = std::move(key)};
    PLIMSOLL_TRY(colon, next("a colon and the value"));
    if (colon.text != ":") return wrong(colon, "a colon and the value");
    PLIMSOLL_TRY(first, next("a value"));
    entry.is_list = first.text == "[";
    if (!entry.is_list) {
      if (is_punctuation(first.text[0])) return wrong(first, "a value");
      entry.value.push_back(std::move(first));
      return entry;
    }
    while (true) {
      PLIMSOLL_TRY(token, next("a closing bracket"));
      if (token.text == "]") return entry;
      if (token.text == "[") return wrong(token, "a list without a list inside");
      entry.value.push_back(std::move(token));
    }
  }

  Done apply(const Entry& entry) {
    const std::string& key = entry.key.text;
    if (key == "large_segment_size_mb") return true;  // read before
    if (key == "max_split_size_mb") return read_max_split_size(entry);
    if (key == "max_non_split_rounding_mb") return read_max_non_split_rounding(entry);
    if (key == "garbage_collection_threshold") return read_threshold(entry);
    if (key == "roundup_power2_divisions") return read_divisions(entry);
    if (key == "expandable_segments") return read_flag(entry, settings_.expandable_segments);
    if (key == "per_process_memory_fraction") return read_fraction(entry);
    if (key == "pinned_max_round_threshold_mb")
      return read_mib(entry, 0, settings_.pinned_max_round_threshold);
    if (key == "pinned_max_cached_size_mb") return read_mib(entry, 0, settings_.pinned_max_cached_size);
    if (key == "backend") return read_backend(entry);
    return read_other(entry);
  }

  Result<std::string> word(const Entry& entry) const {
    if (entry.is_list) return bad_value(entry, "is a list", "a single value");
    return entry.value.front().text;
  }

  // Whole MiB, at least `least`; beyond what any device has it stays there.
  Done read_mib(const Entry& entry, uint64_t least, Bytes& target) const {
    PLIMSOLL_TRY(text, word(entry));
    uint64_t mib = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
      return bad_value(entry, fmt::format("\"{}\" is not a number", text), "a whole number of MiB");
    }
    const bool is_huge = error == std::errc::result_out_of_range || mib > (uint64_t{1} << 40);
    if (!is_huge && mib < least) {
      return bad_value(entry, fmt::format("{} is too small", mib), fmt::format("at least {} (MiB)", least));
    }
    target = is_huge ? kUnlimitedDevice : kMiB * static_cast<int64_t>(mib);
    return true;
  }

  Done read_large_segment_size(const Entry& entry) {
    PLIMSOLL_CHECK(read_mib(entry, 11, settings_.large_segment_size));
    if (settings_.large_segment_size.is_saturated()) {
      return bad_value(entry, "is larger than any device", "a whole number of MiB");
    }
    settings_.max_non_split_rounding = settings_.large_segment_size;
    return true;
  }
  uint64_t large_segment_mib() const {
    return static_cast<uint64_t>(settings_.large_segment_size.value / kMiB.value);
  }
  Done read_max_split_size(const Entry& entry) {
    Bytes size;
    PLIMSOLL_CHECK(read_mib(entry, large_segment_mib(), size));
    settings_.max_split_size = size;
    return true;
  }
  Done read_max_non_split_rounding(const Entry& entry) {
    return read_mib(entry, large_segment_mib(), settings_.max_non_split_rounding);
  }

  Result<double> read_number(const Entry& entry, const char* expected) const {
    PLIMSOLL_TRY(text, word(entry));
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end != text.data() + text.size() || error != std::errc{} || !(number >= 0 && number <= 1)) {
      return bad_value(entry, fmt::format("\"{}\" is not allowed", text), expected);
    }
    return number;
  }
  Done read_threshold(const Entry& entry) {
    constexpr const char* kExpected = "a number above 0 and below 1";
    PLIMSOLL_TRY(threshold, read_number(entry, kExpected));
    if (threshold == 0 || threshold == 1) return bad_value(entry, "is at the limit", kExpected);
    settings_.garbage_collection_threshold = threshold;
    return true;
  }
  Done read_fraction(const Entry& entry) {
    PLIMSOLL_TRY(fraction, read_number(entry, "a number from 0 to 1"));
    settings_.per_process_memory_fraction = fraction;
    return true;
  }

  Done read_flag(const Entry& entry, bool& target) const {
    PLIMSOLL_TRY(text, word(entry));
    if (text != "True" && text != "False") {
      return bad_value(entry, fmt::format("\"{}\" is not a truth value", text), "True or False");
    }
    target = text == "True";
    return true;
  }

  Result<uint64_t> read_power_of_two(const Entry& entry, const std::string& text) const {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end != text.data() + text.size() || error != std::errc{} || !std::has_single_bit(number)) {
      return bad_value(entry, fmt::format("\"{}\" is not a power of two", text), "a power of two");
    }
    return number;
  }

  // "4" for all intervals, or "[256:1,512:2,>:4]": the first key covers all smaller intervals too, ">" those
  // above the key before it, and an interval that nothing covers is off.
  Done read_divisions(const Entry& entry) {
    auto& divisions = settings_.roundup_power2_divisions;
    divisions.fill(0);
    if (!entry.is_list) {
      PLIMSOLL_TRY(number, read_power_of_two(entry, entry.value.front().text));
      divisions.fill(number);
      return true;
    }
    size_t last = 0;
    bool is_first = true;
    for (size_t at = 0; at < entry.value.size(); at += 4) {
      PLIMSOLL_CHECK(check_pair(entry, at));
      const std::string& key = entry.value[at].text;
      uint64_t number = 0;
      if (entry.value[at + 2].text != "0") {
        PLIMSOLL_TRY(power, read_power_of_two(entry, entry.value[at + 2].text));
        number = power;
      }
      if (key == ">") {
        std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last + 1), divisions.end(), number);
        continue;
      }
      PLIMSOLL_TRY(interval, read_power_of_two(entry, key));
      last = std::min<size_t>(static_cast<size_t>(std::countr_zero(interval)), divisions.size() - 1);
      if (is_first)
        std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(last), number);
      is_first = false;
      divisions[last] = number;
    }
    return true;
  }

  // "key : number" and, unless it is the last, a comma.
  Done check_pair(const Entry& entry, size_t at) const {
    const std::vector<Token>& value = entry.value;
    const bool has_colon = at + 2 < value.size() && value[at + 1].text == ":";
    const bool has_comma = at + 3 >= value.size() || value[at + 3].text == ",";
    if (has_colon && has_comma) return true;
    return bad_value(entry, fmt::format("the list is malformed at \"{}\"", value[at].text),
                     "pairs \"MiB:divisions\" with commas between, as in [256:1,512:2,>:4]");
  }

  Done read_backend(const Entry& entry) {
    PLIMSOLL_TRY(text, word(entry));
    if (text != "native") {
      return bad_value(entry, fmt::format("the backend {} is not simulated", text), "native");
    }
    return note(entry);
  }

  // Settings that move no byte here, and those that would and aren't simulated.
  Done read_other(const Entry& entry) {
    static constexpr std::array kNoBytes = {
        "release_lock_on_cudamalloc",   "release_lock_on_hipmalloc",        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register", "pinned_num_register_threads",      "pinned_use_background_threads",
        "pinned_free_catch_all",        "graph_capture_record_stream_reuse"};
    if (std::find(kNoBytes.begin(), kNoBytes.end(), entry.key.text) != kNoBytes.end()) return note(entry);
    const bool is_known =
        entry.key.text == "throw_on_cudamalloc_oom" || entry.key.text == "pinned_reserve_segment_size_mb";
    if (is_known && !entry.is_list && entry.value.front().text == "False") return note(entry);
    return fail({.position = {.file = std::string(source_),
                              .key = entry.key.text,
                              .line = 1,
                              .column = entry.key.column},
                 .message = is_known ? "this setting is not simulated" : "there is no such setting",
                 .expected = "max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb, "
                             "garbage_collection_threshold, roundup_power2_divisions, expandable_segments, "
                             "per_process_memory_fraction, backend or a pinned_ setting"});
  }
  Done note(const Entry& entry) {
    std::string value;
    for (const Token& token : entry.value) value += token.text;
    settings_.without_effect.push_back(entry.key.text + ":" + value);
    return true;
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  int end_column_;
  size_t at_ = 0;
  AllocatorSettings settings_;
};

}  // namespace

Result<AllocatorSettings> parse_allocator_settings(std::string_view text, std::string_view source) {
  return Parser(text, source).parse();
}

}  // namespace plimsoll
