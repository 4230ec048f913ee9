// DirectModel: direct collectives of a few ranks in a model of memory, to check their protocol. The model runs the same
// functions as DirectOp (direct_protocol.h, direct_steps.h, direct_moves.h), but addresses are only numbers, and no
// byte is moved.
//
// Two checks. run() executes the steps in one order and tracks what each byte of memory holds. explore() visits every
// reachable state and shows that the order does not matter: no two steps that are possible at the same time touch the
// same bytes, unless both only read. So what run() finds in one order holds in all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/direct/direct_moves.h"
#include "comm/direct/direct_protocol.h"
#include "comm/direct/direct_steps.h"
#include "comm/wire/geometry.h"

namespace trireme::test {

/// A rank's buffers.
struct ModelBuffers {
  bool input_visible = false;
  bool output_visible = false;  ///< in place: same as the input
  bool in_place = false;        ///< if the operation supports it
};

enum class ModelCounts : std::uint8_t {
  Equal,
  SomeEmpty,  ///< one in three, the others with different lengths
  OneLong,    ///< one has `size` elements, the others two
};

/// One call, on all ranks.
struct ModelCase {
  Operation operation = Operation::Barrier;
  Rank root = 0;
  DType dtype = DType::F32;
  std::int64_t size = 0;  ///< elements of the vector, or of a block
  ModelCounts counts = ModelCounts::Equal;
  bool can_fetch = false;
  std::vector<ModelBuffers> buffers{};  ///< one per rank
};
[[nodiscard]] std::string to_text(const ModelCase& c);

/// The bug of a broken implementation.
enum class Mutation : std::uint8_t {
  None,
  AnnounceWithheldAsCopy,  ///< the root of a reduce, which makes no copy
  SkipPartOfCopy,          ///< of the staged copy of an input
  SkipPartOfChunk,
  ShareEagerly,         ///< treats private outputs as visible ones
  LeaveWithoutWaiting,  ///< for ranks that use this rank's buffers
  StageWithoutWaiting,  ///< for ranks that read the previous chunk
  WorkWithoutWaiting,   ///< until the chunk is staged everywhere
  TakeWithoutWaiting,   ///< until the result is ready
  BeginWithoutWaiting,  ///< until all are done with the call before the last
  AwaitNobody,          ///< choose the path before the others have announced
  NeverTell,            ///< that the work is done
};

class DirectModel {
 public:
  /// The ranks make the calls one after the other.
  explicit DirectModel(const std::vector<ModelCase>& calls, Mutation mutation = Mutation::None);

  /// Which rank makes the next step, if several can.
  enum class Order : std::uint8_t { LowestFirst, HighestFirst, InTurn };
  /// Executes all steps in this order. Returns the problem, or nothing.
  [[nodiscard]] std::optional<std::string> run(Order order);
  /// Visits every state. Returns the problem, or nothing.
  [[nodiscard]] std::optional<std::string> explore();

  /// What determines the states of a call, apart from the lengths of its blocks.
  [[nodiscard]] std::string signature(std::size_t call) const;
  [[nodiscard]] comm::Path path(std::size_t call) const { return parts_[call][0].chosen.path; }
  /// Of the chunked path; else 1, or 0 if there is no data.
  [[nodiscard]] std::int64_t chunks(std::size_t call) const {
    return parts_[call][0].windows.count;
  }
  /// Visited by explore().
  [[nodiscard]] std::size_t states() const { return states_; }

 private:
  static constexpr std::size_t kStepKinds = static_cast<std::size_t>(comm::DirectStep::Finish) + 1;

  /// Bytes that a step reads or writes.
  struct Access {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool is_write = false;
    Rank owner = -1;  ///< the caller whose buffer it is; -1: none
  };
  /// One copy or one combination.
  struct Transfer {
    std::vector<std::uint64_t> sources{};
    std::vector<std::uint64_t> targets{};
    std::uint64_t bytes = 0;
    bool combines = false;
  };
  /// Everything that a step does.
  struct Action {
    std::vector<Transfer> transfers{};
    std::vector<Access> accesses{};
  };
  /// A rank's part in a call: what is known before any rank starts.
  struct Part {
    Call call{};
    comm::Geometry geometry{};
    comm::DirectCall direct{};
    comm::Offers offers{};
    comm::DirectProgress chosen{};  ///< after the path is chosen
    comm::Windows windows{};
    std::vector<int> actions{};  ///< by step and chunk; -1: not recorded yet
  };
  struct RankState {
    std::size_t call = 0;
    comm::DirectProgress progress{};
    std::array<std::uint64_t, comm::kStages> clocks{};
  };
  using State = std::vector<RankState>;
  /// A step that a rank can do now.
  struct Candidate {
    Rank rank = 0;
    comm::DirectStep step{};
    int action = 0;
  };
  class Peers;     ///< what a rank sees in a state
  class Recorder;  ///< records what a step reads and writes
  class Contents;  ///< what memory holds

  /// Ends run() or explore() with this problem.
  [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what); }
  void prepare(std::size_t call);
  void prepare_part(std::size_t call, Rank rank);
  void choose_path(std::size_t call, Rank rank);
  [[nodiscard]] int action_of(std::size_t call, Rank rank, comm::DirectStep step,
                              std::int64_t chunk);
  [[nodiscard]] Action record(std::size_t call, Rank rank, comm::DirectStep step,
                              std::int64_t chunk) const;
  [[nodiscard]] std::vector<Candidate> candidates(const State& state);
  void add_candidates(const State& state, Rank rank, std::vector<Candidate>& out);
  void add_pipeline(const State& state, Rank rank, std::vector<Candidate>& out);
  void apply(const Candidate& step, State& state) const;
  void require_independent(const State& state, const std::vector<Candidate>& steps);
  void require_buffers_held(const State& state, const Candidate& step) const;
  [[nodiscard]] bool conflict(int a, int b);
  [[nodiscard]] bool is_finished(const State& state) const;
  void run_in(Order order);
  void explore_all();
  [[nodiscard]] const Part& part(std::size_t call, Rank rank) const { return parts_[call][rank]; }
  [[nodiscard]] State begin() const { return State(static_cast<std::size_t>(ranks_)); }

  const std::vector<ModelCase>& calls_;
  const Mutation mutation_;
  const Rank ranks_;
  std::vector<std::vector<Part>> parts_{};  ///< by call, by rank
  std::vector<Action> actions_{};
  std::vector<std::vector<std::int8_t>> conflicts_{};  ///< by actions; -1: not compared yet
  std::int64_t chunks_to_ = 0;                         ///< where the last chunk ended
  std::size_t states_ = 0;
};

}  // namespace trireme::test
