// The programs of all ranks of a plan, verified together, intact and damaged. Any damage to a communication op of one
// rank must be found before launch, or change no result.
#include "trireme/program_set.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "meaning.h"
#include "on_ranks.h"
#include "plan_case.h"
#include "tiny_model.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/training.h"

namespace trireme {
namespace {

Graph training_graph(int layers) {
  ModelConfig config = tiny_model();
  config.layers = layers;
  TrainingOptions options;
  options.clip_limit = 0.5;
  return make_training_graph(make_model(config, {.sequences = 4, .length = 6}).graph, options);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.mesh = "data=2"},
      {.mesh = "data=3", .microbatches = 2},
      {.mesh = "data=2", .zero = 1},
      {.mesh = "data=2", .microbatches = 2, .zero = 2},
      {.mesh = "data=3", .zero = 3},
      {.mesh = "tensor=2"},
      {.mesh = "tensor=3"},
      {.mesh = "tensor=2", .sequence = true},
      {.mesh = "context=2"},
      {.mesh = "data=2,context=2", .zero = 1},
      {.mesh = "context=4", .context = Plan::Context::Ring},
      {.mesh = "pipe=2,context=3", .microbatches = 2, .context = Plan::Context::Ring},
      {.mesh = "data=2,tensor=2", .zero = 3, .sequence = true},
      {.mesh = "pipe=2"},
      {.mesh = "pipe=4", .microbatches = 4, .schedule = "gpipe"},
      {.mesh = "pipe=4", .microbatches = 4, .schedule = "1f1b"},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "interleaved", .chunks = 2},
      {.mesh = "pipe=2", .microbatches = 4, .schedule = "zb-h1"},
      {.mesh = "pipe=4", .microbatches = 4, .schedule = "chimera"},
      {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "pipedream-2bw", .zero = 1},
      {.mesh = "pipe=2,tensor=2", .microbatches = 2, .sequence = true},
      {.mesh = "data=2,pipe=2,tensor=2", .microbatches = 2, .zero = 1},
      {.mesh = "data=2,pipe=2,context=2", .microbatches = 2, .schedule = "zb-h1", .zero = 2},
  };
  return all;
}

std::vector<Program> programs_for(const Graph& graph, const Case& c) {
  return programs_of(graph, plan_of(c), dim_names(graph));
}

TEST(ProgramSet, AcceptsPartitionerOutput) {
  const Graph graph = training_graph(4);
  for (const Case& c : cases()) {
    SCOPED_TRACE(describe(c));
    std::vector<Program> programs;
    ASSERT_NO_THROW(programs = programs_for(graph, c));
    const std::vector<RankGroups> groups = groups_of(parse_mesh(c.mesh));
    const std::vector<std::string> problems = trireme::problems(programs, groups);
    EXPECT_TRUE(problems.empty()) << fmt::format("{}", fmt::join(problems, "\n"));
    EXPECT_TRUE(meaning_of(programs, groups).has_value());
  }
}

// What goes over the wires.

/// What all ranks together receive of each op; they send as much.
std::map<std::string, double> received(std::span<const Program> programs) {
  std::map<std::string, double> bytes;
  for (const Program& program : programs) {
    for (const Instruction& instruction : program.instructions) {
      const std::string name(instruction.op->name);
      const auto size = [&](const std::vector<BufferId>& ids) {
        return static_cast<double>(size_of(program.buffer(ids.at(0)).type).count);
      };
      if (name == "receive") {
        bytes["send"] += size(instruction.outputs);
      } else if (name == "all_gather") {
        bytes[name] += size(instruction.outputs) - size(instruction.inputs);
      } else if (name == "reduce_scatter") {
        const auto ranks = std::get<std::int64_t>(instruction.attributes.at("ranks"));
        bytes[name] += size(instruction.outputs) * static_cast<double>(ranks - 1);
      }
    }
  }
  return bytes;
}

TEST(ProgramSet, PredictsSentBytes) {
  const Graph graph = training_graph(4);
  for (const Case& c : cases()) {
    SCOPED_TRACE(describe(c));
    const std::vector<Program> programs = programs_for(graph, c);
    std::map<std::string, double> sent;
    std::mutex mutex;
    const Mesh mesh = parse_mesh(c.mesh);
    run_threads(mesh.devices(), [&](World& world) {
      Communicator communicator(world, mesh);
      CpuOptions options;
      options.threads = 1;
      options.pinned = false;
      const auto device = make_cpu_device(options);
      const Program& program = programs[static_cast<std::size_t>(world.rank())];
      const Execution execution(program, *device, &communicator);
      std::map<std::string, double> predicted;
      for (const OpTraffic& traffic : traffic_of(program)) {
        EXPECT_EQ(traffic.group.empty(), traffic.op == "send" || traffic.op == "receive");
        predicted[traffic.op] += traffic.bytes;
      }
      EXPECT_EQ(predicted, execution.bytes_sent());
      const std::lock_guard lock(mutex);
      for (const auto& [op, bytes] : predicted) {
        sent[op] += bytes;
      }
    });
    for (const auto& [op, bytes] : received(programs)) {
      EXPECT_NEAR(sent[op], bytes, 1e-6 * bytes) << op;
    }
  }
}

// Damage to a communication op of one rank.

enum class Kind {
  Drop,
  Duplicate,
  SwapNeighbours,  ///< with the next instruction
  Reorder,         ///< with the next communication op of the same group, or the next message
  Narrow,          ///< f32 instead of f64
  Lengthen,
  Retarget,
  Retag,
  Regroup,
  Reindex,
  Rereduce,
  Redimension,
  WaitSooner,
  WaitLater,
  UseEarlier,  ///< an instruction needs the result right after the start
};

std::string_view name_of(Kind kind) {
  static const std::array<std::string_view, 15> names{
      "drop",     "duplicate",   "swap neighbours", "re-order",   "narrow",
      "lengthen", "retarget",    "retag",           "regroup",    "reindex",
      "rereduce", "redimension", "wait sooner",     "wait later", "use earlier"};
  return names.at(static_cast<std::size_t>(kind));
}

/// The only kinds that may leave the results unchanged. Two adjacent instructions that do not depend on one another can
/// be swapped, and so can communication ops unless they are of the same group or have the same source, destination and
/// tag; waiting earlier than necessary at most takes longer, unless it causes a cycle; and a result that nothing needs
/// before the end may arrive that late.
bool may_be_harmless(Kind kind) {
  return kind == Kind::SwapNeighbours || kind == Kind::Reorder || kind == Kind::WaitSooner ||
         kind == Kind::WaitLater;
}

/// Whether the op then does not match those of other ranks, whatever its own program looks like.
bool others_see(Kind kind) {
  return !may_be_harmless(kind) && kind != Kind::UseEarlier;
}
bool is_of_one_program(const std::string& problem) {
  return problem.find(": program ") != std::string::npos;
}

void erase(Program& program, std::size_t at) {
  program.instructions.erase(program.instructions.begin() + static_cast<std::ptrdiff_t>(at));
  for (Instruction& instruction : program.instructions) {
    instruction.done_before -= instruction.done_before > static_cast<std::int32_t>(at) ? 1 : 0;
  }
}
void insert(Program& program, std::size_t at, const Instruction& added) {
  for (Instruction& instruction : program.instructions) {
    instruction.done_before += instruction.done_before >= static_cast<std::int32_t>(at) ? 1 : 0;
  }
  program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(at),
                              added);
}

/// A way to damage a program; false if it does not apply.
using Damage = std::function<bool(Program&)>;
struct Damaged {
  Kind kind{};
  Damage damage{};
};

template <class T>
bool change(Program& program, std::size_t at, const char* name, const T& value) {
  Attributes& attributes = program.instructions[at].attributes;
  const auto it = attributes.find(name);
  if (it == attributes.end() || it->second == Attribute(value)) {
    return false;
  }
  it->second = value;
  return true;
}
/// Increments an attribute, with wrap-around.
bool count_up(Program& program, std::size_t at, const char* name, std::int64_t many) {
  const auto it = program.instructions[at].attributes.find(name);
  return it != program.instructions[at].attributes.end() &&
         change(program, at, name, (std::get<std::int64_t>(it->second) + 1) % many);
}

/// Infers the results' types again from the inputs'.
void infer_again(Program& program, std::size_t at) {
  const Instruction& instruction = program.instructions[at];
  Signature signature{.op = instruction.op, .inputs = {}, .attributes = &instruction.attributes};
  for (const BufferId input : instruction.inputs) {
    signature.inputs.push_back(program.buffer(input).type);
  }
  const std::vector<TensorType> types = instruction.op->infer(signature);
  for (std::size_t k = 0; k < types.size(); ++k) {
    program.buffers[static_cast<std::size_t>(instruction.outputs[k].index)].type = types[k];
  }
}

bool narrow(Program& program, std::size_t at) {
  const Instruction& instruction = program.instructions[at];
  if (instruction.inputs.empty()) {
    change(program, at, "dtype", std::string("f32"));
  } else {
    program.buffers[static_cast<std::size_t>(instruction.inputs[0].index)].type.dtype = DType::F32;
  }
  infer_again(program, at);
  return true;
}

bool lengthen(Program& program, std::size_t at) {
  const Instruction& instruction = program.instructions[at];
  const auto longer = [](std::vector<std::int64_t> dims) {
    dims.push_back(2);
    return dims;
  };
  if (instruction.inputs.empty()) {
    change(program, at, "shape",
           longer(std::get<std::vector<std::int64_t>>(instruction.attributes.at("shape"))));
  } else {
    Buffer& input = program.buffers[static_cast<std::size_t>(instruction.inputs[0].index)];
    input.type.shape = Shape(longer(input.type.shape.dims()));
  }
  infer_again(program, at);
  program.arena.count *= 4;
  return true;
}

bool swap(Program& program, std::size_t a, std::size_t b) {
  if (b >= program.instructions.size()) {
    return false;
  }
  std::swap(program.instructions[a], program.instructions[b]);
  return true;
}

std::size_t next_alike(const Program& program, std::size_t at) {
  const auto group = [&](std::size_t i) {
    const auto& attributes = program.instructions[i].attributes;
    const auto it = attributes.find("group");
    return it == attributes.end() ? std::string() : std::get<std::string>(it->second);
  };
  std::size_t next = at + 1;
  while (next < program.instructions.size() &&
         !(program.instructions[next].op->communicates && group(next) == group(at))) {
    ++next;
  }
  return next;
}

bool wait_before(Program& program, std::size_t at, std::int32_t moment) {
  std::int32_t& done_before = program.instructions[at].done_before;
  const bool other = moment != done_before;
  done_before = moment;
  return other;
}

/// Not for a send: it has no result, and waiting for it changes nothing else.
bool use_earlier(Program& program, std::size_t at) {
  const auto use = static_cast<std::size_t>(program.instructions[at].done_before);
  if (use >= program.instructions.size() || use == at + 1 ||
      program.instructions[at].op->name == "send") {
    return false;
  }
  const Instruction user = program.instructions[use];
  erase(program, use);
  insert(program, at + 1, user);
  return true;
}

/// All possible damage to the communication op at `at`, on one of `ranks` ranks.
std::vector<Damaged> damages(std::size_t at, int ranks, const Program& whole) {
  const std::int32_t begin = static_cast<std::int32_t>(at);
  const std::int32_t until = whole.instructions[at].done_before;
  const auto end = static_cast<std::int32_t>(whole.instructions.size());
  return {
      {Kind::Drop, [=](Program& p) { return erase(p, at), true; }},
      {Kind::Duplicate,
       [=](Program& p) { return insert(p, at + 1, Instruction(p.instructions[at])), true; }},
      {Kind::SwapNeighbours, [=](Program& p) { return swap(p, at, at + 1); }},
      {Kind::SwapNeighbours, [=](Program& p) { return at > 0 && swap(p, at - 1, at); }},
      {Kind::Reorder, [=](Program& p) { return swap(p, at, next_alike(p, at)); }},
      {Kind::Narrow, [=](Program& p) { return narrow(p, at); }},
      {Kind::Lengthen, [=](Program& p) { return lengthen(p, at); }},
      {Kind::Retarget,
       [=](Program& p) {
         return !p.instructions[at].attributes.contains("group") &&
                (p.instructions[at].inputs.empty() ? count_up(p, at, "from", ranks)
                                                   : count_up(p, at, "to", ranks));
       }},
      {Kind::Retag, [=](Program& p) { return count_up(p, at, "tag", 1 << 30); }},
      {Kind::Retag,
       [=](Program& p) {
         const std::size_t other = next_alike(p, at);
         return other < p.instructions.size() && p.instructions[at].attributes.contains("tag") &&
                change(p, at, "tag",
                       std::get<std::int64_t>(p.instructions[other].attributes.at("tag")));
       }},
      {Kind::Regroup,
       [=](Program& p) {
         return change(p, at, "group", std::string("data")) ||
                change(p, at, "group", std::string("tensor"));
       }},
      {Kind::Reindex, [=](Program& p) { return count_up(p, at, "index", ranks); }},
      {Kind::Rereduce, [=](Program& p) { return change(p, at, "reduction", std::string("min")); }},
      {Kind::Redimension, [=](Program& p) { return count_up(p, at, "dimension", 3); }},
      {Kind::WaitSooner, [=](Program& p) { return wait_before(p, at, begin + 1); }},
      {Kind::WaitSooner, [=](Program& p) { return wait_before(p, at, (begin + 1 + until) / 2); }},
      {Kind::WaitLater, [=](Program& p) { return until < end && wait_before(p, at, until + 1); }},
      {Kind::WaitLater, [=](Program& p) { return wait_before(p, at, end); }},
      {Kind::UseEarlier, [=](Program& p) { return use_earlier(p, at); }},
  };
}

struct Tally {
  int caught = 0;
  int harmless = 0;
};

/// Applies all damage to every communication op of every rank.
void damage_all(const Graph& graph, const Case& c, std::map<Kind, Tally>& tally) {
  SCOPED_TRACE(describe(c));
  std::vector<Program> programs = programs_for(graph, c);
  const std::vector<RankGroups> groups = groups_of(parse_mesh(c.mesh));
  const std::optional<Meaning> right = meaning_of(programs, groups);
  ASSERT_TRUE(right.has_value());
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const Program whole = programs[rank];
    for (std::size_t i = 0; i < whole.instructions.size(); ++i) {
      if (!whole.instructions[i].op->communicates) {
        continue;
      }
      for (const Damaged& damaged : damages(i, static_cast<int>(programs.size()), whole)) {
        programs[rank] = whole;
        if (!damaged.damage(programs[rank])) {
          continue;
        }
        SCOPED_TRACE(fmt::format("{} at {} of rank {}", name_of(damaged.kind), i, rank));
        const std::vector<std::string> problems = trireme::problems(programs, groups);
        const bool found = !problems.empty();
        ++(found ? tally[damaged.kind].caught : tally[damaged.kind].harmless);
        if (may_be_harmless(damaged.kind)) {
          EXPECT_EQ(meaning_of(programs, groups) == right, !found);
        } else {
          EXPECT_TRUE(found);
        }
        if (others_see(damaged.kind)) {
          EXPECT_FALSE(std::ranges::all_of(problems, is_of_one_program));
        }
      }
    }
    programs[rank] = whole;
  }
}

void find_damage(const std::vector<Case>& of_one_block, const std::vector<Case>& of_two) {
  std::map<Kind, Tally> tally;
  const Graph one_block = training_graph(1);
  for (const Case& c : of_one_block) {
    damage_all(one_block, c, tally);
  }
  const Graph two_blocks = training_graph(2);
  for (const Case& c : of_two) {
    damage_all(two_blocks, c, tally);
  }
  for (int k = 0; k <= static_cast<int>(Kind::UseEarlier); ++k) {
    const auto kind = static_cast<Kind>(k);
    EXPECT_GT(tally[kind].caught, 0) << name_of(kind);
    EXPECT_EQ(tally[kind].harmless > 0, may_be_harmless(kind)) << name_of(kind);
  }
}

TEST(ProgramSet, EveryDamageIsFoundOrHarmless) {
  find_damage({{.mesh = "data=2", .zero = 1},
               {.mesh = "data=2,tensor=2"},
               {.mesh = "context=3", .context = Plan::Context::Ring}},
              {{.mesh = "pipe=2", .microbatches = 2, .schedule = "gpipe"}});
}

TEST(LongProgramSet, EveryDamageIsFoundOrHarmless) {
  find_damage({{.mesh = "data=2", .microbatches = 2, .zero = 2},
               {.mesh = "data=2", .zero = 3},
               {.mesh = "tensor=2", .sequence = true},
               {.mesh = "context=2"},
               {.mesh = "context=4", .context = Plan::Context::Ring},
               {.mesh = "data=2,tensor=2"}},
              {{.mesh = "pipe=2", .microbatches = 4},
               {.mesh = "pipe=2", .microbatches = 2, .schedule = "zb-h1"},
               {.mesh = "pipe=2", .microbatches = 2, .schedule = "chimera"},
               {.mesh = "pipe=2", .microbatches = 4, .schedule = "pipedream-2bw"},
               {.mesh = "pipe=2,tensor=2"}});
}

}  // namespace
}  // namespace trireme
