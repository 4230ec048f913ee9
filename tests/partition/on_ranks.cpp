#include "on_ranks.h"

#include <cstring>
#include <mutex>
#include <set>

#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/optimize.h"

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

CpuOptions one_thread() {
  CpuOptions options;
  options.threads = 1;
  options.pinned = false;
  return options;
}

/// Calls f(element of the part, element of the whole) for what a place has of a value.
template <class F>
void for_each_part(const Placement& placement, const Shape& shape, const Axes& axes, int micro,
                   std::vector<int> coordinates, F f) {
  const int batches =
      micro >= 0 && placement.mentions(micro) ? axes[static_cast<std::size_t>(micro)].size : 1;
  std::size_t at = 0;
  for (int m = 0; m < batches; ++m) {
    if (micro >= 0) {
      coordinates[static_cast<std::size_t>(micro)] = m;
    }
    const Shape part = shape_at(placement, shape, axes, coordinates);
    const std::vector<std::int64_t> strides = shape.strides();
    for (std::int64_t i = 0; i < part.element_count(); ++i) {
      std::int64_t rest = i;
      std::int64_t whole = 0;
      for (std::size_t d = part.dims().size(); d-- > 0;) {
        const Stretch block = block_at(placement.dims[d], shape.dims()[d], axes, coordinates);
        whole += (rest % part.dims()[d] + block.begin) * strides[d];
        rest /= part.dims()[d];
      }
      f(at++, static_cast<std::size_t>(whole));
    }
  }
}

}  // namespace

Trained train_alone(const Graph& graph, const Numbers& first, const Batches& batches) {
  const auto device = make_cpu_device(one_thread());
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

namespace {

/// Where a rank is on the axes of the wishes, and which ranks are its pipeline.
struct Seat {
  RankPlace place{};
  std::vector<int> pipe_ranks{};
};

Seat seat_of(int rank, const Plan& plan, const Axes& axes) {
  Seat seat;
  const std::vector<int> all = plan.mesh.coordinates(rank);
  for (const MeshAxis& axis : axes) {
    int coordinate = 0;
    for (std::size_t a = 0; a < all.size(); ++a) {
      coordinate = plan.mesh.axes()[a].name == axis.name ? all[a] : coordinate;
    }
    seat.place.coordinates.push_back(coordinate);
  }
  seat.pipe_ranks = {rank};
  if (plan.mesh.size("pipe") > 1) {
    seat.pipe_ranks = plan.mesh.group_of("pipe", rank);
  }
  seat.place.pipe =
      static_cast<int>(std::ranges::find(seat.pipe_ranks, rank) - seat.pipe_ranks.begin());
  return seat;
}

}  // namespace

std::vector<Program> programs_of(const Graph& graph, const Plan& plan, const DimNames& names) {
  const Wishes wishes = wishes_of(graph, plan, names);
  const Partition partition(graph, wishes);
  const PipelineTable table = table_of(plan);
  std::vector<Program> programs;
  for (int rank = 0; rank < plan.mesh.devices(); ++rank) {
    const Seat seat = seat_of(rank, plan, wishes.axes);
    const RankGraph mine = partition.graph_at(seat.place, table, seat.pipe_ranks);
    programs.push_back(make_program(fuse_elementwise(mine.graph)));
  }
  return programs;
}

Trained train_on_ranks(const Graph& graph, const Plan& plan, const DimNames& names,
                       const Numbers& first, const Batches& batches) {
  const Wishes wishes = wishes_of(graph, plan, names);
  const Partition partition(graph, wishes);
  const PipelineTable table = table_of(plan);
  Trained trained;
  trained.losses.resize(batches.size());
  std::mutex mutex;
  run_threads(plan.mesh.devices(), [&](World& world) {
    const Seat seat = seat_of(world.rank(), plan, wishes.axes);
    const RankPlace& place = seat.place;
    const RankGraph mine = partition.graph_at(place, table, seat.pipe_ranks);
    mine.graph.verify();
    Program program = make_program(fuse_elementwise(mine.graph));
    program.verify();
    Communicator communicator(world, plan.mesh);
    const auto device = make_cpu_device(one_thread());
    Execution execution(std::move(program), *device, &communicator);
    const auto scatter = [&](const Numbers& values) {
      for (const auto& entry : values) {
        const std::string& name = entry.first;
        const std::vector<double>& numbers = entry.second;
        const auto stored = mine.stored.find(name);
        if (stored == mine.stored.end()) {
          continue;
        }
        std::vector<double> part;
        for_each_part(stored->second, graph.value(graph.find(name)).type.shape, wishes.axes,
                      wishes.micro, place.coordinates,
                      [&](std::size_t, std::size_t whole) { part.push_back(numbers[whole]); });
        write(execution, name, part);
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
    for (const auto& [name, placement] : mine.stored) {
      const Value& value = graph.value(graph.find(name));
      if (value.origin == Origin::Input) {
        continue;
      }
      const std::vector<double> part = read(execution, name);
      std::vector<double>& whole = trained.kept[name];
      whole.resize(static_cast<std::size_t>(value.type.shape.element_count()));
      for_each_part(placement, value.type.shape, wishes.axes, wishes.micro, place.coordinates,
                    [&](std::size_t i, std::size_t at) { whole[at] = part[i]; });
    }
  });
  return trained;
}

}  // namespace trireme
