#include "meaning.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "trireme/op.h"

namespace trireme {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
std::uint64_t mix_text(std::uint64_t a, std::string_view text) {
  return mix(a, std::hash<std::string_view>()(text));
}

struct Hasher {
  std::uint64_t so_far = 0;
  std::uint64_t operator()(std::int64_t value) const {
    return mix(so_far, static_cast<std::uint64_t>(value));
  }
  std::uint64_t operator()(double value) const {
    return mix(so_far, std::hash<double>()(value) + 1);
  }
  std::uint64_t operator()(const std::string& value) const { return mix_text(so_far, value); }
  std::uint64_t operator()(const std::vector<std::int64_t>& values) const {
    std::uint64_t hash = mix(so_far, values.size());
    for (const std::int64_t value : values) {
      hash = mix(hash, static_cast<std::uint64_t>(value));
    }
    return hash;
  }
};

std::uint64_t hash_of(const TensorType& type) {
  return Hasher{static_cast<std::uint64_t>(type.dtype)}(type.shape.dims());
}

/// The op and its attributes, without this rank's index in a group.
std::uint64_t hash_of(const Instruction& instruction) {
  std::uint64_t hash = mix_text(0, instruction.op->name);
  for (const auto& [name, value] : instruction.attributes) {
    if (name != "index") {
      hash = std::visit(Hasher{mix_text(hash, name)}, value);
    }
  }
  return hash;
}

std::int64_t integer(const Instruction& instruction, const char* name) {
  return std::get<std::int64_t>(instruction.attributes.at(name));
}

/// A rank's contribution to a communication op.
struct Offer {
  std::uint64_t content = 0;
  std::uint64_t type = 0;
};
/// Offers that wait for one another: those of a group, or of a source, a destination and a tag.
using Channel = std::tuple<std::string, std::vector<int>, std::int64_t>;
struct Place {
  Channel channel{};
  int side = 0;  ///< the rank
  std::size_t number = 0;
};

struct UnderWay {
  std::size_t at = 0;
  Place place{};
  /// Buffers that must be unchanged at the end.
  std::vector<std::pair<BufferId, std::uint64_t>> untouched{};
};

class Symbols {
 public:
  Symbols(std::span<const Program> programs, std::span<const RankGroups> groups)
      : programs_(programs), groups_(groups), ranks_(programs.size()) {}

  std::optional<Meaning> run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      begin_step(r);
    }
    for (bool moves = true; moves && !broken_;) {
      moves = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        while (!broken_ && step(r)) {
          moves = true;
        }
      }
    }
    return broken_ || !all_at_end() ? std::nullopt : std::optional(results());
  }

 private:
  struct Content {
    std::int64_t end = 0;
    std::uint64_t hash = 0;
  };
  struct RankState {
    std::size_t at = 0;
    bool at_end = false;
    std::map<std::int64_t, Content> memory{};
    std::vector<UnderWay> under_way{};
  };

  static std::int64_t bytes(const Buffer& buffer) { return size_of(buffer.type).count; }

  std::uint64_t read(std::size_t r, BufferId id) {
    const Buffer& buffer = programs_[r].buffer(id);
    const auto it = ranks_[r].memory.find(buffer.offset);
    if (bytes(buffer) == 0) {
      return 1;
    }
    const bool there =
        it != ranks_[r].memory.end() && it->second.end == buffer.offset + bytes(buffer);
    return there ? it->second.hash : rubbish();
  }
  void write(std::size_t r, BufferId id, std::uint64_t hash) {
    const Buffer& buffer = programs_[r].buffer(id);
    const std::int64_t end = buffer.offset + bytes(buffer);
    if (bytes(buffer) == 0) {
      return;
    }
    std::map<std::int64_t, Content>& memory = ranks_[r].memory;
    auto it = memory.upper_bound(buffer.offset);
    if (it != memory.begin() && std::prev(it)->second.end > buffer.offset) {
      --it;
    }
    while (it != memory.end() && it->first < end) {
      it = memory.erase(it);
    }
    memory[buffer.offset] = {end, hash};
  }
  /// Different from anything else.
  std::uint64_t rubbish() { return mix(0xBAD, ++rubbish_); }

  void begin_step(std::size_t r) {
    for (std::size_t b = 0; b < programs_[r].buffers.size(); ++b) {
      const Buffer& buffer = programs_[r].buffers[b];
      if (buffer.origin != Origin::Node) {
        write(r, {static_cast<std::int32_t>(b)}, mix_text(mix(7, r), buffer.name));
      }
    }
  }

  /// False: the rank waits, or has finished.
  bool step(std::size_t r) {
    RankState& rank = ranks_[r];
    if (rank.at_end || !finish_due(r)) {
      return false;
    }
    if (rank.at == programs_[r].instructions.size()) {
      rank.at_end = true;
      broken_ = broken_ || !rank.under_way.empty();
      return true;
    }
    const Instruction& instruction = programs_[r].instructions[rank.at];
    if (instruction.op->communicates) {
      start(r, instruction);
    } else if (!instruction.op->is_view) {
      compute(r, instruction);
    }
    ++rank.at;
    return true;
  }

  void compute(std::size_t r, const Instruction& instruction) {
    std::uint64_t hash = hash_of(instruction);
    for (const BufferId input : instruction.inputs) {
      hash = mix(mix(hash, hash_of(programs_[r].buffer(input).type)), read(r, input));
    }
    for (std::size_t k = 0; k < instruction.outputs.size(); ++k) {
      write(r, instruction.outputs[k], mix(hash, k));
    }
  }

  void start(std::size_t r, const Instruction& instruction) {
    const bool receives = instruction.inputs.empty();
    const BufferId tensor = receives ? instruction.outputs[0] : instruction.inputs[0];
    const TensorType& type = programs_[r].buffer(tensor).type;
    Offer offer{receives ? 0 : read(r, tensor), hash_of(type)};
    UnderWay exchange{
        .at = ranks_[r].at, .place = place_of(static_cast<int>(r), instruction), .untouched = {}};
    if (instruction.attributes.contains("group")) {
      offer.content = mix(mix(hash_of(instruction), offer.type), offer.content);
    }
    std::vector<Offer>& offers = offers_[exchange.place.channel][exchange.place.side];
    exchange.place.number = offers.size();
    offers.push_back(offer);
    for (const BufferId output : instruction.outputs) {
      write(r, output, rubbish());
    }
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId id : *buffers) {
        exchange.untouched.emplace_back(id, read(r, id));
      }
    }
    ranks_[r].under_way.push_back(std::move(exchange));
  }

  [[nodiscard]] Place place_of(int rank, const Instruction& instruction) const {
    if (instruction.attributes.contains("group")) {
      const auto& name = std::get<std::string>(instruction.attributes.at("group"));
      const RankGroups& mine = groups_[static_cast<std::size_t>(rank)];
      const auto it = mine.find(name);
      return {{name, it == mine.end() ? std::vector<int>() : it->second, 0}, rank, 0};
    }
    const bool sends = !instruction.inputs.empty();
    const int peer = static_cast<int>(integer(instruction, sends ? "to" : "from"));
    const std::vector<int> ends{sends ? rank : peer, sends ? peer : rank};
    return {{"", ends, integer(instruction, "tag")}, rank, 0};
  }

  /// Whether everything that must be done before the rank's next instruction now is.
  bool finish_due(std::size_t r) {
    RankState& rank = ranks_[r];
    for (std::size_t k = 0; k < rank.under_way.size();) {
      const UnderWay& exchange = rank.under_way[k];
      const Instruction& instruction = programs_[r].instructions[exchange.at];
      if (instruction.done_before != static_cast<std::int32_t>(rank.at)) {
        ++k;
        continue;
      }
      if (!is_met(exchange.place)) {
        return false;
      }
      for (const auto& [id, content] : exchange.untouched) {
        broken_ = broken_ || read(r, id) != content;
      }
      const std::uint64_t result = result_of(r, instruction, exchange.place);
      for (std::size_t o = 0; o < instruction.outputs.size(); ++o) {
        write(r, instruction.outputs[o], mix(result, o));
      }
      rank.under_way.erase(rank.under_way.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return true;
  }

  bool is_met(const Place& place) {
    for (const int member : std::get<1>(place.channel)) {
      if (offers_[place.channel][member].size() <= place.number) {
        return false;
      }
    }
    return true;
  }

  std::uint64_t result_of(std::size_t r, const Instruction& instruction, const Place& place) {
    std::uint64_t result = 3;
    for (const int member : std::get<1>(place.channel)) {
      const Offer& offer = offers_[place.channel][member][place.number];
      result = mix(result, offer.content);
      // Messages of different lengths are an error.
      broken_ = broken_ || (std::get<0>(place.channel).empty() &&
                            offer.type != offers_[place.channel][place.side][place.number].type);
    }
    for (const BufferId output : instruction.outputs) {
      result = mix(result, hash_of(programs_[r].buffer(output).type));
    }
    const auto index = instruction.attributes.find("index");
    return index == instruction.attributes.end() ? result
                                                 : std::visit(Hasher{result}, index->second);
  }

  [[nodiscard]] bool all_at_end() const {
    return std::ranges::all_of(ranks_, [](const RankState& rank) { return rank.at_end; });
  }

  Meaning results() {
    Meaning all(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const NamedBuffer& output : programs_[r].outputs) {
        all[r].push_back(read(r, output.buffer));
      }
      for (std::size_t b = 0; b < programs_[r].buffers.size(); ++b) {
        const Origin origin = programs_[r].buffers[b].origin;
        if (origin == Origin::Parameter || origin == Origin::State) {
          all[r].push_back(read(r, {static_cast<std::int32_t>(b)}));
        }
      }
    }
    return all;
  }

  std::span<const Program> programs_;
  std::span<const RankGroups> groups_;
  std::vector<RankState> ranks_;
  std::map<Channel, std::map<int, std::vector<Offer>>> offers_;
  std::uint64_t rubbish_ = 0;
  bool broken_ = false;
};

}  // namespace

std::optional<Meaning> meaning_of(std::span<const Program> programs,
                                  std::span<const RankGroups> groups) {
  return Symbols(programs, groups).run();
}

}  // namespace trireme
