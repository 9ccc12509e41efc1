#include "program/autograd.h"

#include <cassert>

#include "program/autograd/engine.h"
#include "program/autograd/graph.h"
#include "program/autograd/player.h"
#include "program/ops.h"

namespace plimsoll {

void accumulate_gradient(Recorder& r, TensorId parameter, Value gradient, Value& kept, Category category) {
  if (kept) {
    kept = ops::add_(std::move(kept), std::move(gradient));
    return;
  }
  const Layout& wanted = r.info(parameter).layout;
  const bool is_alike = gradient.layout().strides == wanted.strides || gradient.layout().is_contiguous();
  if (r.tensor_references(gradient.id()) == 1 && is_alike) {
    kept = std::move(gradient);
  } else {
    Value copy = ops::empty(r, wanted, gradient.dtype());
    kept = ops::copy_(std::move(copy), std::move(gradient));
  }
  r.program().storages[kept.info().storage.value].category = category;
}

struct Autograd::Impl {
  Impl(Recorder& recorder, const Program& forward, GradientSink& sink, UnitHooks* hooks,
       AutogradOptions options)
      : r(recorder),
        hooks(hooks),
        graph(recorder),
        player(recorder, forward, graph, hooks),
        engine(recorder, forward, graph, player, sink, hooks, options) {
    graph.reserve(forward.ops.size() + forward.parameters.size());
    listener = r.listen([this](TensorId id) { graph.tensor_died(id); });
  }
  ~Impl() {
    player.release_locals();
    r.stop_listening(listener);
  }

  Recorder& r;
  UnitHooks* hooks;
  autograd::Graph graph;
  autograd::Player player;
  autograd::Engine engine;
  size_t listener = 0;
};

Autograd::Autograd(Recorder& recorder, const Program& forward, GradientSink& sink, UnitHooks* hooks,
                   AutogradOptions options)
    : impl_(std::make_unique<Impl>(recorder, forward, sink, hooks, options)) {}
Autograd::~Autograd() = default;

void Autograd::bind(TensorId forward_tensor, Value value) {
  impl_->player.bind(forward_tensor, std::move(value));
}

void Autograd::forward_until(uint32_t statement) { impl_->player.play_until(statement); }
Value Autograd::local(TensorId forward_tensor) const { return impl_->player.local(forward_tensor); }

Value Autograd::forward(TensorId result) {
  impl_->player.play(true);
  return impl_->player.local(result);
}

void Autograd::forward_without_gradients() { impl_->player.play(false); }

Result<void> Autograd::backward(Value root) {
  Recorder& r = impl_->r;
  const With<bool> mode(r.is_grad_enabled, false);
  const With<Category> category(r.category, Category::kTemporary);
  const std::optional<autograd::Edge> edge = impl_->graph.gradient_edge(root.id());
  if (!edge)
    return fail({.message = "the loss requires no gradient: no trained parameter takes part in it",
                 .expected = "at least one that does"});
  Value ones = ops::ones_like(root);
  impl_->engine.run({{*edge, ones}});
  if (impl_->hooks) impl_->hooks->at_backward_end();
  ones.reset();
  root.reset();
  if (impl_->engine.error()) return fail(*impl_->engine.error());
  return {};
}

Autograd::Root Autograd::root_of(const Value& result) {
  const std::optional<autograd::Edge> edge = impl_->graph.edge_to(result.id());
  assert(edge && "a root that requires no gradient");
  return {.node = edge->node, .slot = edge->slot};
}

Result<void> Autograd::backward(Root root, Value gradient) {
  Recorder& r = impl_->r;
  const With<bool> mode(r.is_grad_enabled, false);
  const With<Category> category(r.category, Category::kTemporary);
  impl_->engine.run({{{.node = root.node, .slot = root.slot}, std::move(gradient)}});
  if (impl_->hooks) impl_->hooks->at_backward_end();
  if (impl_->engine.error()) return fail(*impl_->engine.error());
  return {};
}

void Autograd::release_locals() { impl_->player.release_locals(); }

}  // namespace plimsoll
