#include "on_ranks.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "graph/blocks.h"
#include "program/ring_traffic.h"
#include "program/traffic.h"
#include "trireme/communicator.h"
#include "trireme/compiled_plan.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/optimize.h"
#include "trireme/parts.h"
#include "trireme/program_set.h"
#include "trireme/recompute.h"

namespace trireme {
namespace {

std::vector<std::byte> to_bytes(const std::vector<double>& numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() * static_cast<std::size_t>(size_of(dtype).count));
  const auto put = [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const T number = static_cast<T>(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &number, sizeof(T));
    }
  };
  switch (dtype) {
    case DType::F64:
      put(0.0);
      break;
    case DType::F32:
      put(0.0F);
      break;
    case DType::I32:
      put(std::int32_t{0});
      break;
    default:
      put(std::int64_t{0});
      break;
  }
  return bytes;
}

std::vector<double> read(const Execution& execution, const std::string& name) {
  const Buffer& buffer = execution.program().buffer(execution.program().find(name));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(buffer.type).count));
  execution.read(name, bytes);
  std::vector<double> numbers(static_cast<std::size_t>(buffer.type.shape.element_count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (buffer.type.dtype == DType::F64) {
      std::memcpy(&numbers[i], bytes.data() + i * sizeof(double), sizeof(double));
    } else {
      float narrow = 0;
      std::memcpy(&narrow, bytes.data() + i * sizeof(float), sizeof(float));
      numbers[i] = narrow;
    }
  }
  return numbers;
}

void write(Execution& execution, const std::string& name, const std::vector<double>& numbers) {
  const Buffer& buffer = execution.program().buffer(execution.program().find(name));
  execution.write(name, to_bytes(numbers, buffer.type.dtype));
}

/// No direct operations, which send nothing that could be counted; and no algorithm that sends more than necessary.
WorldOptions by_messages(Rank ranks) {
  WorldOptions options;
  for (Rank members = 2; members <= ranks; ++members) {
    for (const Operation operation : {Operation::Allreduce, Operation::Allgather,
                                      Operation::ReduceScatter, Operation::Alltoall}) {
      TuningRow row;
      row.operation = operation;
      row.ranks = members;
      row.transport = TransportKind::InProcess;
      row.to = Bytes{std::int64_t{1} << 40};
      row.method = Method::scheduled(operation == Operation::Alltoall ? Algorithm::Pairwise
                                                                      : Algorithm::Ring);
      options.tuning.rows.push_back(row);
    }
  }
  return options;
}

OpBytes sent_since(const SentBytes& before, const SentBytes& now) {
  OpBytes bytes;
  const auto put = [&](const char* op, std::int64_t count) {
    if (count != 0) {
      bytes[op] = static_cast<double>(count);
    }
  };
  const auto put_operation = [&](const char* op, Operation operation) {
    put(op, now.of(operation) - before.of(operation));
  };
  put_operation("all_reduce", Operation::Allreduce);
  put_operation("all_gather", Operation::Allgather);
  put_operation("reduce_scatter", Operation::ReduceScatter);
  put_operation("all_to_all", Operation::Alltoall);
  put("send", now.messages - before.messages);
  return bytes;
}

OpBytes predicted_of(const Program& program, const Mesh& mesh, int rank) {
  OpBytes bytes;
  for (const Instruction& instruction : program.instructions) {
    const std::string op(instruction.op->name);
    const Signature signature = signature_of(program, instruction);
    double sent = bytes_sent(signature);
    if (op == "all_reduce" || op == "all_gather") {
      const std::vector<int> group = mesh.group_of(signature.text("group"), rank);
      sent = ring_bytes_sent(signature, std::ranges::find(group, rank) - group.begin());
    }
    if (sent != 0) {
      bytes[op] += sent;
    }
  }
  return bytes;
}

OpBytes traffic_by_op(const Program& program) {
  OpBytes bytes;
  for (const OpTraffic& traffic : traffic_of(program)) {
    if (traffic.bytes != 0) {
      bytes[traffic.op] += traffic.bytes;
    }
  }
  return bytes;
}

}  // namespace

std::unique_ptr<Device> make_one_thread() {
  return make_cpu_device({.threads = 1, .pinned = false});
}

Trained train_alone(const Graph& graph, const Numbers& first, const Batches& batches) {
  const auto device = make_one_thread();
  Execution execution(make_program(graph), *device);
  for (const auto& [name, numbers] : first) {
    write(execution, name, numbers);
  }
  Trained trained;
  for (const Numbers& batch : batches) {
    for (const auto& [name, numbers] : batch) {
      write(execution, name, numbers);
    }
    execution.run();
    trained.losses.push_back(read(execution, "loss").at(0));
  }
  for (const Value& value : graph.values()) {
    if (value.origin == Origin::Parameter || value.origin == Origin::State) {
      trained.kept[value.name] = read(execution, value.name);
    }
  }
  return trained;
}

Numbers evaluate_alone(const Graph& graph, const Numbers& leaves) {
  const auto device = make_one_thread();
  Execution execution(make_program(graph), *device);
  for (const auto& [name, numbers] : leaves) {
    write(execution, name, numbers);
  }
  execution.run();
  Numbers outputs;
  for (const Output& output : graph.outputs()) {
    outputs[output.name] = read(execution, output.name);
  }
  return outputs;
}

std::vector<Program> programs_of(const Graph& whole, const Plan& plan, const DimNames& names,
                                 const Fusions& fusions) {
  const CompiledPlan compiled({.graph = recompute_by(whole, plan.recompute), .names = names}, plan,
                              fusions);
  return {compiled.programs().begin(), compiled.programs().end()};
}

Trained train_on_ranks(const Graph& whole, const Plan& plan, const DimNames& names,
                       const Numbers& first, const Batches& batches,
                       const MakeDevice& make_device) {
  const Graph graph = recompute_by(whole, plan.recompute);
  return train_on_ranks(graph, plan, resolve_placements(graph, plan, names), table_of(plan), first,
                        batches, make_device);
}

Trained train_on_ranks(const Graph& graph, const Plan& plan, const PlacementSpec& placements,
                       const PipelineTable& table, const Numbers& first, const Batches& batches,
                       const MakeDevice& make_device) {
  const Partition partition(graph, placements);
  Trained trained;
  trained.losses.resize(batches.size());
  trained.predicted.resize(static_cast<std::size_t>(plan.mesh.devices()));
  trained.traffic.resize(trained.predicted.size());
  trained.sent.resize(trained.predicted.size());
  trained.held.resize(trained.predicted.size());
  std::mutex mutex;
  const auto body = [&](World& world) {
    const RankPlace place = place_of(plan, placements, world.rank());
    const RankGraph mine = partition.graph_at(place, table);
    require_valid(mine.graph);
    const auto device = make_device();
    Program program = make_program(fuse_for(mine.graph, device->fusions()));
    require_valid(program);
    Communicator communicator(world, plan.mesh);
    const SentBytes before = world.bytes_sent();  // creating groups sends something, too
    Execution execution(std::move(program), *device, &communicator);
    const auto part_of = [&](const std::string& name, const Placement& placement) {
      return Part{.type = graph.value(graph.find(name)).type,
                  .placement = placement,
                  .axes = placements.axes,
                  .micro = placements.micro,
                  .coordinates = place.coordinates};
    };
    const auto scatter = [&](const Numbers& values) {
      for (const auto& entry : values) {
        const std::string& name = entry.first;
        const std::vector<double>& numbers = entry.second;
        const auto stored = mine.stored.find(name);
        if (stored != mine.stored.end()) {
          const Part part = part_of(name, stored->second);
          std::vector<std::byte> bytes(
              static_cast<std::size_t>(size_of(TensorType{part.type.dtype, shape_of(part)}).count));
          take_part(part, to_bytes(numbers, part.type.dtype), bytes);
          execution.write(name, bytes);
        }
      }
    };
    scatter(first);
    for (std::size_t step = 0; step < batches.size(); ++step) {
      scatter(batches[step]);
      execution.run();
      const double loss = read(execution, "loss").at(0);
      const std::lock_guard lock(mutex);
      trained.losses[step] = loss;
    }
    const std::lock_guard lock(mutex);
    trained.traffic[static_cast<std::size_t>(world.rank())] = traffic_by_op(execution.program());
    trained.predicted[static_cast<std::size_t>(world.rank())] =
        predicted_of(execution.program(), plan.mesh, world.rank());
    trained.sent[static_cast<std::size_t>(world.rank())] = sent_since(before, world.bytes_sent());
    for (const auto& [name, placement] : mine.stored) {
      const Value& value = graph.value(graph.find(name));
      if (value.origin == Origin::Input) {
        continue;
      }
      const Part part = part_of(name, placement);
      const std::vector<double> numbers = read(execution, name);
      trained.held[static_cast<std::size_t>(world.rank())][name] = numbers;
      Part in_f64 = part;
      in_f64.type.dtype = DType::F64;
      std::vector<double>& whole = trained.kept[name];
      whole.resize(static_cast<std::size_t>(value.type.shape.element_count()));
      put_part(in_f64, std::as_bytes(std::span(numbers)), std::as_writable_bytes(std::span(whole)));
    }
  };
  run_threads(plan.mesh.devices(), body, by_messages(plan.mesh.devices()));
  return trained;
}

}  // namespace trireme
