// The parts of a layer with experts (MoELayer): where tokens go, how they get there, what is computed there.
//
// n is a rank's tokens, E the experts, g the ranks of the expert tensor-parallel and expert-parallel groups
// together. Source: megatron/core/transformer/moe/*.py.
#pragma once

#include <memory>

#include "frameworks/megatron/expert_ranks.h"
#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {

// How many rows the traced rank sends, receives and computes of one layer.
struct ExpertLoad {
  int64_t sent = 0;      // rows of its own tokens, one for each expert that they go to
  int64_t received = 0;  // from the expert-parallel ranks
  int64_t computed = 0;  // with those of the expert tensor-parallel ranks: the local experts' rows
  int64_t local_experts = 1;
  int64_t capacity = 0;  // of an expert, of one rank's tokens; 0: no bound
};
ExpertLoad expert_load(const ResolvedJob& job, const Moe& moe, int64_t tokens);

struct Routes {
  Value probs, map;  // [n, E]: weights of the chosen experts, and which they are (bool)
};
// router.cc: x [s, b, h].
Routes route(Writer& w, const Moe& moe, const Value& x);

struct Dispatched {
  Value tokens, probs;  // [computed, h], [computed]; rows of one expert lie together
};
// dispatch_*.cc. What is kept between the two ways is the object's.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  virtual Dispatched to_experts(const Value& x, Routes routes) = 0;
  virtual Value from_experts(Value rows) = 0;  // [s, b, h] again
};
std::unique_ptr<Dispatcher> make_all_gather_dispatcher(Writer& w, const Moe& moe);
std::unique_ptr<Dispatcher> make_all_to_all_dispatcher(Writer& w, const Moe& moe);
std::unique_ptr<Dispatcher> make_flex_dispatcher(Writer& w, const Moe& moe);
// Of the tokens of all ranks: those that have any of a rank's experts, where every choice is as likely.
double share_of_tokens(const Moe& moe, int64_t local_experts);

}  // namespace plimsoll::megatron
