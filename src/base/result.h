// How a user's mistake travels: as a value with its place, what was expected and a hint. Programming mistakes
// are asserts.
//
//   Result<Config> read(...);
//   auto config = read(path);
//   if (!config) return tl::unexpected(config.error());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace plimsoll {

// Where in the input: a file (or "--set" and the like), and a key path, a line and column (1-based), or in a
// binary file the byte (from 0).
struct SourcePosition {
  std::string file;
  std::string key;
  std::optional<int> line;
  std::optional<int> column;
  std::optional<uint64_t> byte = std::nullopt;

  std::string to_text() const;  // "config.json:3:7, key \"hidden_size\""
};

struct Error {
  SourcePosition position;
  std::string message;       // what is wrong, one sentence without a full stop
  std::string expected;      // what would have been right; may be empty
  std::string hint;          // what to do; may be empty
  bool is_internal = false;  // our fault: exit code 1, not 2

  std::string to_text() const;  // printable (base/printable.h)
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace plimsoll

// Early return of an error: PLIMSOLL_TRY(config, read(path)); config is then a value of the Result's type.
#define PLIMSOLL_TRY_NAME2(a, b) a##b
#define PLIMSOLL_TRY_NAME(a, b) PLIMSOLL_TRY_NAME2(a, b)
#define PLIMSOLL_TRY(variable, expression)                                                               \
  auto PLIMSOLL_TRY_NAME(try_result_, __LINE__) = (expression);                                          \
  if (!PLIMSOLL_TRY_NAME(try_result_, __LINE__))                                                         \
    return tl::unexpected<plimsoll::Error>(std::move(PLIMSOLL_TRY_NAME(try_result_, __LINE__)).error()); \
  auto variable = *std::move(PLIMSOLL_TRY_NAME(try_result_, __LINE__))
#define PLIMSOLL_CHECK(expression)                                                        \
  do {                                                                                    \
    auto try_check = (expression);                                                        \
    if (!try_check) return tl::unexpected<plimsoll::Error>(std::move(try_check).error()); \
  } while (false)
