#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "program/text.h"

namespace plimsoll {
namespace {

constexpr uint32_t kNobody = ~uint32_t{0};

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

class Writer {
 public:
  explicit Writer(const Program& program)
      : p_(program),
        op_of_tensor_(program.tensors.size(), kNobody),
        tensor_of_storage_(program.storages.size(), kNobody),
        is_defined_(program.tensors.size()) {
    for (const Statement& s : p_.statements)
      if (s.kind == StatementKind::kOp)
        for (TensorId t : p_.outputs(p_.ops[s.index]))
          if (op_of_tensor_[t.value] == kNobody) op_of_tensor_[t.value] = s.index;
    for (uint32_t t = 0; t < p_.tensors.size(); ++t)
      if (op_of_tensor_[t] == kNobody) claim_storage(t);
    for (const Statement& s : p_.statements)
      if (s.kind == StatementKind::kOp)
        for (TensorId t : p_.outputs(p_.ops[s.index]))
          if (op_of_tensor_[t.value] == s.index) claim_storage(t.value);
  }

  std::string write_all() {
    print("plimsoll program 1 {}\n", p_.is_complete ? "complete" : "forward");
    write_tables();
    write_statements();
    for (const PhaseStep& step : p_.schedule) print("play {} as {}\n", step.section, quoted(step.phase));
    return take();
  }

  std::string write_one(const Statement& s) {
    names_all_storages_ = true;
    is_defined_.assign(p_.tensors.size(), true);
    write_statement(s);
    return take();
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  std::string take() { return fmt::to_string(out_); }

  void claim_storage(uint32_t tensor) {
    uint32_t& first = tensor_of_storage_[p_.tensors[tensor].storage.value];
    if (first == kNobody) first = tensor;
  }

  // ---- tables ----

  void write_tables() {
    for (const std::string& group : p_.groups) print("group {}\n", quoted(group));
    for (const std::string& note : p_.notes) print("note {}\n", quoted(note));
    for (uint32_t s = 0; s < p_.storages.size(); ++s)
      if (tensor_of_storage_[s] == kNobody) write_lone_storage(s);
    for (uint32_t t = 0; t < p_.tensors.size(); ++t) {
      if (op_of_tensor_[t] != kNobody) continue;
      print("tensor ");
      define(TensorId{t}, std::nullopt, ModuleId{});
      print("\n");
    }
    constexpr size_t kPerLine = 16;
    for (size_t i = 0; i < p_.parameters.size(); i += kPerLine) {
      print("parameters ");
      write_list(std::span(p_.parameters).subspan(i, std::min(kPerLine, p_.parameters.size() - i)));
      print("\n");
    }
    for (uint32_t r = 0; r < p_.regions.size(); ++r) write_region(r);
  }

  void write_lone_storage(uint32_t id) {
    const Storage& s = p_.storages[id];
    print("storage s{} bytes={}", id, s.bytes.value);
    write_storage_words(s, ModuleId{});
    print("\n");
    highest_storage_ = std::max<int64_t>(highest_storage_, id);
  }

  void write_region(uint32_t id) {
    const Region& r = p_.regions[id];
    print("region r{} {} @{} ", id, name_of(r.kind), module_text(r.module));
    write_list(r.arguments);
    if (!r.keywords.empty()) {
      print(" keywords ");
      write_list(r.keywords);
    }
    print(" -> ");
    write_list(r.results);
    if (r.checkpoint != Checkpoint::kNone) print(" {}", name_of(r.checkpoint));
    write_kinds("keeps", r.kept);
    write_kinds("alternates", r.alternately_kept);
    if (r.keeps_only_needed) print(" needed");
    if (r.is_recomputed_whole) print(" whole");
    if (r.is_unit) print(" unit");
    print("\n");
  }

  void write_kinds(std::string_view word, std::span<const OpKind> kinds) {
    if (kinds.empty()) return;
    print(" {} (", word);
    for (size_t i = 0; i < kinds.size(); ++i) print("{}{}", i > 0 ? ", " : "", name_of(kinds[i]));
    print(")");
  }

  // ---- tensors ----

  void write_list(std::span<const TensorId> tensors) {
    print("(");
    for (size_t i = 0; i < tensors.size(); ++i) print("{}%{}", i > 0 ? ", " : "", tensors[i].value);
    print(")");
  }

  // `shared`: the storage that it has when nothing is said. `module`: the owner when nothing is said.
  void define(TensorId id, std::optional<StorageId> shared, ModuleId module) {
    const TensorInfo& t = p_.tensor(id);
    is_defined_[id.value] = true;
    print("%{}:{}[{}]", id.value, name_of(t.dtype), fmt::join(t.layout.shape(), ","));
    if (t.layout != Layout::contiguous(t.layout.shape())) {
      const std::span<const int64_t> strides(t.layout.strides.data(), t.layout.shape().size());
      print("/[{}]", fmt::join(strides, ","));
    }
    if (t.requires_grad) print(" grad");
    if (t.is_view) print(" view");
    const bool is_first = tensor_of_storage_[t.storage.value] == id.value;
    const bool is_expected = is_first ? !shared && !names_all_storages_ && !p_.is_complete &&
                                            t.storage.value == highest_storage_ + 1
                                      : shared == t.storage;
    if (!is_expected) print(" s{}", t.storage.value);
    if (!is_first) return;
    highest_storage_ = std::max<int64_t>(highest_storage_, t.storage.value);
    const Storage& s = p_.storage(t.storage);
    const Bytes natural = Bytes{t.layout.elements()} * bytes_of(t.dtype);
    if (s.bytes != natural) print(" bytes={}", s.bytes.value);
    write_storage_words(s, module);
  }

  void write_storage_words(const Storage& s, ModuleId module) {
    if (s.category != Category::kActivation) print(" {}", name_of(s.category));
    if (s.tier != Tier::kGpu) print(" {}", name_of(s.tier));
    if (s.owner != module) print(" of @{}", module_text(s.owner));
  }

  // ---- statements ----

  void write_statements() {
    std::vector<std::vector<uint32_t>> begins(p_.statements.size() + 1), ends(p_.statements.size() + 1);
    const auto place = [&](uint32_t statement) { return std::min<size_t>(statement, p_.statements.size()); };
    for (uint32_t i = 0; i < p_.sections.size(); ++i) {
      begins[place(p_.sections[i].first_statement)].push_back(i);
      ends[place(p_.sections[i].last_statement)].push_back(i);
    }
    const auto is_empty = [&](uint32_t i) {
      return p_.sections[i].first_statement == p_.sections[i].last_statement;
    };
    for (size_t i = 0; i <= p_.statements.size(); ++i) {
      for (uint32_t section : ends[i])
        if (!is_empty(section)) print("section {} end\n", section);
      for (uint32_t section : begins[i]) {
        print("section {} begin {}\n", section, quoted(p_.sections[section].name));
        if (is_empty(section)) print("section {} end\n", section);
      }
      if (i == p_.statements.size()) break;
      write_statement(p_.statements[i]);
      print("\n");
    }
  }

  void write_statement(const Statement& s) {
    switch (s.kind) {
      case StatementKind::kOp:
        return write_op(s.index);
      case StatementKind::kDrop:
        return print("drop %{}", s.index);
      case StatementKind::kFree:
        return print("free s{} {}", s.index, name_of(s.holder));
      case StatementKind::kBegin:
        return print("begin r{}  # {}", s.index, module_text(p_.regions[s.index].module));
      case StatementKind::kEnd:
        return print("end r{}", s.index);
    }
  }

  void write_op(uint32_t id) {
    const Op& op = p_.ops[id];
    const std::span<const TensorId> inputs = p_.inputs(op), outputs = p_.outputs(op);
    std::optional<StorageId> shared;
    if (shares_input_storage(op.kind) && !inputs.empty() && is_defined_[inputs[0].value])
      shared = p_.tensor(inputs[0]).storage;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i > 0) print(", ");
      if (op_of_tensor_[outputs[i].value] == id) {
        define(outputs[i], shared, op.module);
      } else {
        print("%{}", outputs[i].value);
      }
    }
    print("{}{}", outputs.empty() ? "" : " = ", name_of(op.kind));
    write_list(inputs);
    const int rank = inputs.empty() ? 0 : p_.tensor(inputs[0]).layout.rank;
    write_attributes(p_.attributes_of(op), op.kind == OpKind::kTranspose ? 2 : rank);
    if (op.module.value != 0) print(" @{}", module_text(op.module));
    if (op.stream != Stream::kCompute) print(" on {}", name_of(op.stream));
    if (op.backward_of) print(" backward_of {}", name_of(*op.backward_of));
    if (op.is_recomputed) print(" recomputed");
    if (op.workspace.value != 0) print(" workspace={}", op.workspace.value);
  }

  void write_attributes(const Attributes& attributes, int dims) {
    const Overloaded writers{
        [](std::monostate) {},
        [&](const DimAttr& a) { print(" {{over {:#x}{}}}", a.mask, a.keep_dims ? " keep" : ""); },
        [&](const DimsAttr& a) {
          int count = kMaxRank;
          while (count > dims && a.dims[static_cast<size_t>(count - 1)] == 0) --count;
          print(" {{order [{}]}}", fmt::join(a.dims.begin(), a.dims.begin() + count, ","));
        },
        [&](const SliceAttr& a) { print(" {{dim {} from {} step {}}}", a.dim, a.start, a.step); },
        [&](const ScalarAttr& a) { print(" {{{}}}", a.value); },
        [&](const AttentionAttr& a) {
          print(" {{{} dropout {}}}", a.is_causal ? "causal" : "full", a.dropout);
        },
        [&](const CollectiveAttr& a) { print(" {{group {}}}", a.group); },
        [&](const FusedAttr& a) {
          print(" {{fused {}{}{}{}multiprocessors {}", a.has_norm_bias ? "norm_bias " : "",
                a.has_bias ? "bias " : "", a.sums_input_gradient ? "sums " : "",
                a.adds_weight_gradient ? "adds " : "", a.multiprocessors);
          if (a.input_ranks > 1) print(" gathers {}", a.input_ranks);
          if (a.result_ranks > 1) print(" scatters {}", a.result_ranks);
          print("}}");
        },
    };
    std::visit(writers, attributes);
  }

  // ---- words ----

  std::string module_text(ModuleId id) const {
    const std::string& name = p_.module_name(id);
    const bool is_plain = !name.empty() && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '.';
    });
    return is_plain ? name : quoted(name);
  }

  static std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') {
        result += '\\';
        result += c;
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        result += c;
      }
    }
    return result + '"';
  }

  const Program& p_;
  std::vector<uint32_t> op_of_tensor_;       // that makes it; kNobody: declared
  std::vector<uint32_t> tensor_of_storage_;  // the first tensor in text order: it says what the storage is
  std::vector<bool> is_defined_;             // by the text so far
  bool names_all_storages_ = false;
  int64_t highest_storage_ = -1;  // of those mentioned so far
  fmt::memory_buffer out_;
};

}  // namespace

std::string to_text(const Program& program) { return Writer(program).write_all(); }
std::string to_text(const Program& program, const Statement& statement) {
  return Writer(program).write_one(statement);
}

}  // namespace plimsoll
