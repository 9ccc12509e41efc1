#include "importers/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace plimsoll {
namespace {

// Pieces of growing sizes, each told by its note.
TEST(ReadAhead, GivesAllPiecesInOrder) {
  constexpr int kCount = 50;
  int made = 0;
  ReadAhead<int> ahead([&](uint8_t* to, size_t count, int& note) -> size_t {
    note = made;
    if (made == kCount) return 0;
    const size_t size = std::min<size_t>(count, static_cast<size_t>(made) * 7000 + 1);
    std::fill(to, to + size, static_cast<uint8_t>(made));
    ++made;
    return size;
  });
  for (int i = 0; i < kCount; ++i) {
    const auto& piece = ahead.next();
    ASSERT_EQ(piece.size, std::min<size_t>(ReadAhead<int>::kPieceBytes, static_cast<size_t>(i) * 7000 + 1));
    EXPECT_EQ(piece.note, i);
    EXPECT_EQ(piece.bytes[0], i);
    EXPECT_EQ(piece.bytes[piece.size - 1], i);
  }
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(ahead.next().size, 0U);
    EXPECT_EQ(ahead.next().note, kCount);
  }
}

TEST(ReadAhead, MakesNoMoreThanItHoldsAndStopsWhenItIsDropped) {
  std::atomic<size_t> made = 0;
  {
    ReadAhead<int> ahead([&](uint8_t*, size_t, int&) -> size_t { return ++made; });
    EXPECT_EQ(ahead.next().size, 1U);
  }
  EXPECT_LE(made, ReadAhead<int>::kPieces);
  ReadAhead<int> unused([](uint8_t*, size_t, int&) -> size_t { return 1; });
}

}  // namespace
}  // namespace plimsoll
