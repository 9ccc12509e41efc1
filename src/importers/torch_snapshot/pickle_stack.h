// The values that a pickle has written and not yet put into anything. Values are made in their place: a copy
// that reads two words behind narrower writes waits for these to be done.
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "importers/torch_snapshot/pickle_value.h"

namespace plimsoll {

class PickleStack {
 public:
  size_t size() const { return static_cast<size_t>(top_ - values_.get()); }
  bool empty() const { return top_ == values_.get(); }
  bool is_full() const { return top_ == end_; }
  void grow() {  // twofold
    const size_t count = size(), room = std::max<size_t>(2 * count, 1024);
    auto values = std::make_unique<PickleValue[]>(room);
    std::copy(values_.get(), top_, values.get());
    values_ = std::move(values);
    top_ = values_.get() + count;
    end_ = values_.get() + room;
  }

  // REQUIRES !is_full().
  void push(PickleKind kind, uint32_t id, int64_t integer) {
    top_->kind = kind;
    top_->id = id;
    top_->integer = integer;
    ++top_;
  }
  void push(const PickleValue& v) { push(v.kind, v.id, v.integer); }
  void drop_to(size_t size) { top_ = values_.get() + size; }  // REQUIRES size <= size()
  // For loops that keep the place of the next value to themselves.
  PickleValue* bottom() { return values_.get(); }
  void set_top(PickleValue* top) { top_ = top; }
  size_t room() const { return static_cast<size_t>(end_ - top_); }

  PickleValue& back() { return top_[-1]; }
  PickleValue& operator[](size_t i) { return values_[i]; }
  const PickleValue& operator[](size_t i) const { return values_[i]; }
  std::span<const PickleValue> from(size_t begin) const { return {values_.get() + begin, size() - begin}; }

 private:
  std::unique_ptr<PickleValue[]> values_;
  PickleValue* top_ = nullptr;
  PickleValue* end_ = nullptr;
};

}  // namespace plimsoll
