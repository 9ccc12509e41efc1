// Independent pieces of work, several at a time.
//
//   in_threads(2, items.size(), [&](size_t i) { results[i] = work_on(items[i]); });
//
// Each of 0 .. count-1 is done once, by one of at most `threads` threads, the caller's among them; returns
// when all are done. What a piece throws (memory runs out) is thrown to the caller once no thread works any
// more; pieces that were not begun by then are left out. Where the system gives no more threads, there are
// fewer.
#pragma once

#include <cstddef>
#include <functional>

namespace plimsoll {

void in_threads(unsigned threads, size_t count, const std::function<void(size_t)>& work);

}  // namespace plimsoll
