#include "train/spread.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/optimize.h"
#include "trireme/parts.h"

namespace trireme::train {
namespace {

constexpr std::int32_t kReadTag = 0x7ead;

std::vector<std::byte> room_for(const Part& part) {
  const TensorType type{part.type.dtype, shape_of(part)};
  return std::vector<std::byte>(static_cast<std::size_t>(size_of(type).count));
}

}  // namespace

Spread::Spread(const Graph& graph, const DimNames& names, const Ranks& ranks, Device& device)
    : graph_(graph), ranks_(ranks) {
  wishes_ = wishes_of(graph_, ranks_.plan, names);
  table_ = table_of(ranks_.plan);
  partition_ = std::make_unique<Partition>(graph_, wishes_);
  const RankGraph mine =
      partition_->graph_at(place_of(ranks_.plan, wishes_, ranks_.rank()), table_);
  execution_ = std::make_unique<Execution>(make_program(fuse_elementwise(mine.graph)), device,
                                           ranks_.communicator);
}

Spread::~Spread() = default;

Part Spread::part_at(const Value& value, int rank) const {
  Part part;
  part.type = value.type;
  part.placement = partition_->stored(value.name);
  part.axes = wishes_.axes;
  part.micro = wishes_.micro;
  part.coordinates = place_of(ranks_.plan, wishes_, rank).coordinates;
  return part;
}

bool Spread::has(const Value& value, int rank) const {
  const auto stage = static_cast<std::size_t>(partition_->home(value.name));
  const int pipe = place_of(ranks_.plan, wishes_, rank).pipe;
  return std::ranges::any_of(table_.placement,
                             [&](const std::vector<int>& copy) { return copy[stage] == pipe; });
}

void Spread::run(Trace* trace) {
  if (trace != nullptr && ranks_.communicator != nullptr) {
    ranks_.communicator->world().all().barrier();
  }
  execution_->run(trace);
}

void Spread::write(std::string_view name, std::span<const std::byte> whole) {
  const Value& value = graph_.value(graph_.find(name));
  if (static_cast<std::int64_t>(whole.size()) != size_of(value.type).count) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} is {}, {} bytes; {} bytes were given", name, to_text(value.type),
                            size_of(value.type).count, whole.size()));
  }
  // An input is there on the ranks that read it alone.
  const bool there =
      value.origin == Origin::Input
          ? std::ranges::any_of(program().buffers,
                                [&](const Buffer& buffer) {
                                  return buffer.origin == Origin::Input && buffer.name == name;
                                })
          : has(value, ranks_.rank());
  if (!there) {
    return;
  }
  const Part part = part_at(value, ranks_.rank());
  if (shape_of(part) == value.type.shape) {
    execution_->write(name, whole);
    return;
  }
  std::vector<std::byte> mine = room_for(part);
  take_part(part, whole, mine);
  execution_->write(name, mine);
}

void Spread::read(std::string_view name, std::span<std::byte> whole) {
  const auto& outputs = graph_.outputs();
  const bool is_output = std::ranges::find(outputs, name, &Output::name) != outputs.end();
  Value value = graph_.value(is_output ? graph_.output(name) : graph_.find(name));
  value.name = name;
  if (ranks_.communicator == nullptr) {
    execution_->read(name, whole);
    return;
  }
  Group& all = ranks_.communicator->world().all();
  const int own = ranks_.rank();
  std::vector<std::vector<int>> seen;  // the parts that rank 0 has already
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    if (!has(value, rank)) {
      continue;
    }
    const Part part = part_at(value, rank);
    std::vector<int> which;
    for (std::size_t a = 0; a < part.axes.size(); ++a) {
      which.push_back(part.placement.mentions(static_cast<int>(a)) ? part.coordinates[a] : 0);
    }
    if (std::ranges::find(seen, which) != seen.end()) {
      continue;
    }
    seen.push_back(which);
    if (own != 0 && own != rank) {
      continue;
    }
    std::vector<std::byte> bytes = room_for(part);
    if (own == rank) {
      execution_->read(name, bytes);
    }
    if (own == rank && own != 0) {
      all.send(std::span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                             bytes.size()),
               0, kReadTag);
    }
    if (own == 0) {
      if (rank != 0) {
        all.receive(
            std::span<std::uint8_t>(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()),
            rank, kReadTag);
      }
      put_part(part, bytes, whole);
    }
  }
}

double Spread::number(std::string_view output) const {
  const Buffer& buffer = program().buffer(program().find(output));
  if (buffer.type.dtype == DType::F64) {
    double value = 0;
    execution_->read(output, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  float value = 0;
  execution_->read(output, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace trireme::train
