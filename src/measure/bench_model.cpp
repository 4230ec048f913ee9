#include "measure/bench_model.h"

namespace trireme::measure {

BenchModel::BenchModel(const BenchPlan& plan)
    : ranks_(plan.ranks),
      dtype_(plan.dtype),
      sight_(plan.buffers == BufferKind::Shared || plan.transport == TransportKind::InProcess
                 ? comm::Sight::Visible
                 : comm::Sight::Hidden),
      costs_(plan.costs.value()),
      model_({.ranks = plan.ranks,
              .ranks_per_host = plan.ranks,
              .transport = plan.transport,
              .shares_memory = shares_memory(plan)},
             plan.costs) {}

Bytes BenchModel::bytes_of(const BenchCase& what) const {
  return {what.count * size_of(dtype_).count};
}

std::optional<Seconds> BenchModel::predict(const BenchCase& what, const std::string& chosen) const {
  return model_.predict({.operation = what.operation, .bytes = bytes_of(what), .dtype = dtype_},
                        parse_method(chosen), sight_);
}

std::optional<Seconds> BenchModel::floor(const BenchCase& what) const {
  if (what.count == 0) {
    return std::nullopt;
  }
  return comm::direct_floor({what.operation, ranks_, bytes_of(what), sight_, dtype_}, costs_);
}

}  // namespace trireme::measure
