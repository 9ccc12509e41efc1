#include "frameworks/native/adafactor.h"

#include <algorithm>

#include "program/ops.h"

namespace plimsoll::native {
namespace {

// Always a slice, so that the program of every rank has the same ops. A rank may have none of a tensor.
Value part(Value flat, int64_t start, int64_t elements) {
  const Layout layout = flat.layout().sliced(0, elements, 1);
  return flat.recorder().emit_view(OpKind::kSlice, flat, layout, SliceAttr{.dim = 0, .start = start});
}

// What the rank's part of a unit has of one of its tensors.
struct Piece {
  int64_t begin = 0;  // of the tensor's elements
  int64_t place = 0;  // in the part
  int64_t elements = 0;

  Value of(const Value& flat) const { return part(flat, place, elements); }
  SliceAttr attribute() const { return {.dim = 0, .start = begin}; }
};

Piece piece_of(const UnitTensor& t, int64_t first, int64_t held) {
  const int64_t begin = std::clamp(t.offset, first, first + held);
  const int64_t end = std::clamp(t.offset + t.elements, first, first + held);
  return {.begin = begin == end ? 0 : begin - t.offset, .place = begin - first, .elements = end - begin};
}

// What statistics, moments or factors have of one tensor.
struct Factors {
  Value rows, columns;
};
Factors factors_of(const Value& flat, const FactoredTensor& t) {
  return {.rows = part(flat, t.offset, t.rows), .columns = part(flat, t.offset + t.rows, t.columns)};
}

}  // namespace

AdafactorStep::AdafactorStep(Recorder& recorder, const Architecture& architecture, Tier tier,
                             std::vector<AdafactorUnit> units, Sum sum)
    : r_(recorder), a_(architecture), tier_(tier), units_(std::move(units)), sum_(std::move(sum)) {}

Value AdafactorStep::make(int64_t elements, DType dtype) const {
  const With<Tier> tier(r_.tier, tier_);
  return ops::empty(r_, {elements}, dtype);
}

template <typename Emit>
void AdafactorStep::for_each_tensor(size_t unit, Emit&& emit) const {
  const AdafactorUnit& u = units_[unit];
  for (const FactoredTensor& t : u.tensors) {
    const With<ModuleId> m(r_.module, r_.program().module(a_.parameters[t.tensor.parameter].name));
    emit(t, piece_of(t.tensor, u.first, u.gradient.size(0)));
  }
}

void AdafactorStep::begin() {
  for (size_t u = 0; u < units_.size(); ++u) write_statistics(u);
  int64_t tensors = 0;
  for (const AdafactorUnit& unit : units_) tensors += static_cast<int64_t>(unit.tensors.size());
  {
    const With<ModuleId> m(r_.module, r_.program().module("update_norms"));
    norms_ = make(tensors, DType::kFloat64);
  }
  for (size_t u = 0; u < units_.size(); ++u) write_factors(u);
  if (sum_) sum_(norms_);
  next_norm_ = 0;
}

void AdafactorStep::write_statistics(size_t unit) {
  const AdafactorUnit& u = units_[unit];
  const With<ModuleId> m(r_.module, u.module);
  statistics_.push_back(make(u.moments.size(0), DType::kFloat64));
  for_each_tensor(unit, [&](const FactoredTensor& t, const Piece& piece) {
    const Value gradient = piece.of(u.gradient);
    const Factors shares = factors_of(statistics_.back(), t);
    r_.emit_effect(OpKind::kAdafactorStatistics,
                   std::vector<TensorId>{gradient.id(), shares.rows.id(), shares.columns.id()},
                   piece.attribute());
  });
  if (sum_) sum_(statistics_.back());
}

void AdafactorStep::write_factors(size_t unit) {
  const AdafactorUnit& u = units_[unit];
  const With<ModuleId> m(r_.module, u.module);
  factors_.push_back(make(u.moments.size(0), DType::kFloat32));
  for_each_tensor(unit, [&](const FactoredTensor& t, const Piece& piece) {
    const Factors means = factors_of(statistics_[unit], t), moments = factors_of(u.moments, t),
                  factors = factors_of(factors_.back(), t);
    r_.emit_effect(OpKind::kAdafactorMoments,
                   std::vector<TensorId>{means.rows.id(), means.columns.id(), moments.rows.id(),
                                         moments.columns.id(), factors.rows.id(), factors.columns.id()});
    const Value own = part(norms_, next_norm_++, 1), gradient = piece.of(u.gradient);
    r_.emit_effect(OpKind::kAdafactorNorm,
                   std::vector<TensorId>{own.id(), gradient.id(), factors.rows.id(), factors.columns.id()},
                   piece.attribute());
  });
  statistics_[unit].reset();
}

void AdafactorStep::update(size_t unit, const Value& master, const Value& copy) {
  for_each_tensor(unit, [&](const FactoredTensor& t, const Piece& piece) {
    const Value own = part(norms_, next_norm_++, 1), gradient = piece.of(units_[unit].gradient),
                changed = piece.of(master);
    const Factors factors = factors_of(factors_[unit], t);
    std::vector<TensorId> inputs{changed.id(), gradient.id(), own.id(), factors.rows.id(),
                                 factors.columns.id()};
    Value narrow;
    if (copy) {
      narrow = piece.of(copy);
      inputs.push_back(narrow.id());
    }
    r_.emit_effect(OpKind::kAdafactorUpdate, inputs, piece.attribute());
  });
  factors_[unit].reset();
  units_[unit].gradient.reset();
  if (unit + 1 == units_.size()) norms_.reset();
}

}  // namespace plimsoll::native
