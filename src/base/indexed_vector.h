// IndexedVector: a vector with one element for each rank, place, block, node, … that is indexed by exactly that. An index
// of another type does not compile where the compiler warns about conversions, and no index needs a cast.
//
//   IndexedVector<Rank, Bytes> sent(ranks);
//   sent[message.from] += bytes;
//
// As safe for threads as std::vector.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// The position of an id: itself, the value of an enumerator, or its member `index`.
template <class Id>
[[nodiscard]] constexpr std::size_t position_of(Id id) {
  if constexpr (std::integral<Id> || std::is_enum_v<Id>) {
    return static_cast<std::size_t>(id);
  } else {
    return static_cast<std::size_t>(id.index);
  }
}

template <class Id, class T>
class IndexedVector {
 public:
  using Items = std::vector<T>;
  // NOLINTBEGIN(readability-identifier-naming): the names of the standard library's containers
  using value_type = T;
  using reference = typename Items::reference;
  using const_reference = typename Items::const_reference;
  using iterator = typename Items::iterator;
  using const_iterator = typename Items::const_iterator;
  // NOLINTEND(readability-identifier-naming)

  IndexedVector() = default;
  explicit IndexedVector(std::integral auto count) : items_(static_cast<std::size_t>(count)) {}
  IndexedVector(std::integral auto count, const T& value)
      : items_(static_cast<std::size_t>(count), value) {}
  IndexedVector(std::initializer_list<T> items) : items_(items) {}
  IndexedVector(Items items) : items_(std::move(items)) {}  // NOLINT(google-explicit-constructor)

  /// Requires 0 <= id < size().
  [[nodiscard]] reference operator[](Id id) { return items_[position_of(id)]; }
  [[nodiscard]] const_reference operator[](Id id) const { return items_[position_of(id)]; }
  /// Throws std::out_of_range unless 0 <= id < size().
  [[nodiscard]] reference at(Id id) { return items_.at(position_of(id)); }
  [[nodiscard]] const_reference at(Id id) const { return items_.at(position_of(id)); }

  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  /// One past the last index, for loops over all.
  [[nodiscard]] Id count() const noexcept requires std::integral<Id> {
    return static_cast<Id>(items_.size());
  }

  [[nodiscard]] iterator begin() noexcept { return items_.begin(); }
  [[nodiscard]] iterator end() noexcept { return items_.end(); }
  [[nodiscard]] const_iterator begin() const noexcept { return items_.begin(); }
  [[nodiscard]] const_iterator end() const noexcept { return items_.end(); }
  [[nodiscard]] reference front() { return items_.front(); }
  [[nodiscard]] const_reference front() const { return items_.front(); }
  [[nodiscard]] reference back() { return items_.back(); }
  [[nodiscard]] const_reference back() const { return items_.back(); }

  void reserve(std::integral auto count) { items_.reserve(static_cast<std::size_t>(count)); }
  void resize(std::integral auto count) { items_.resize(static_cast<std::size_t>(count)); }
  void resize(std::integral auto count, const T& value) {
    items_.resize(static_cast<std::size_t>(count), value);
  }
  void assign(std::integral auto count, const T& value) {
    items_.assign(static_cast<std::size_t>(count), value);
  }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void clear() noexcept { items_.clear(); }

  /// The elements without the typed index, for functions that take any vector.
  [[nodiscard]] const Items& items() const& noexcept { return items_; }
  [[nodiscard]] Items items() && noexcept { return std::move(items_); }

  friend bool operator==(const IndexedVector&, const IndexedVector&) = default;

 private:
  Items items_;
};

}  // namespace trireme
