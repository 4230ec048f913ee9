// IndexedVector: a vector with one element for each rank, axis, stage, block, node, … that is indexed by exactly that, so
// no index needs a cast. An id of another type does not compile. Where ids are plain integers, the type says what the
// vector is indexed by, and any integer is an index. IndexedArray has a fixed size.
//
//   IndexedVector<Rank, Bytes> sent(ranks);
//   sent[message.from] += bytes;
//   for (const Rank rank : sent.ids()) { … }
//
// As safe for threads as std::vector.
#pragma once

#include <array>
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

/// The id at a position.
template <class Id>
[[nodiscard]] constexpr Id id_at(std::size_t position) {
  if constexpr (std::integral<Id> || std::is_enum_v<Id>) {
    return static_cast<Id>(position);
  } else {
    return Id{static_cast<decltype(Id::index)>(position)};
  }
}

/// The first ids, in order.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(std::size_t position) : position_(position) {}
    constexpr Id operator*() const { return id_at<Id>(position_); }
    constexpr Iterator& operator++() {
      ++position_;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::size_t position_;
  };
  constexpr explicit IdRange(std::size_t count) : count_(count) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(0); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(count_); }

 private:
  std::size_t count_;
};

template <class A, class B>
concept BothIntegral = std::integral<A> && std::integral<B>;
/// What may index a container by Id.
template <class Index, class Id>
concept IndexOf = std::same_as<Index, Id> || BothIntegral<Index, Id>;

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
  explicit IndexedVector(std::integral auto count) : items_(count) {}
  IndexedVector(std::integral auto count, const T& value) : items_(count, value) {}
  IndexedVector(std::initializer_list<T> items) : items_(items) {}
  IndexedVector(Items items) : items_(std::move(items)) {}  // NOLINT(google-explicit-constructor)

  /// Requires 0 <= id < size().
  [[nodiscard]] reference operator[](IndexOf<Id> auto id) { return items_[position_of(id)]; }
  [[nodiscard]] const_reference operator[](IndexOf<Id> auto id) const {
    return items_[position_of(id)];
  }
  /// Throws std::out_of_range unless 0 <= id < size().
  [[nodiscard]] reference at(IndexOf<Id> auto id) { return items_.at(position_of(id)); }
  [[nodiscard]] const_reference at(IndexOf<Id> auto id) const { return items_.at(position_of(id)); }

  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  /// One past the last index, for loops over all.
  [[nodiscard]] Id count() const noexcept requires std::integral<Id> {
    return static_cast<Id>(items_.size());
  }
  /// All indices, in order.
  [[nodiscard]] IdRange<Id> ids() const noexcept { return IdRange<Id>(items_.size()); }
  /// Whether there is an element of this index.
  [[nodiscard]] bool contains(IndexOf<Id> auto id) const noexcept {
    return position_of(id) < items_.size();  // a negative id is beyond every size
  }

  [[nodiscard]] iterator begin() noexcept { return items_.begin(); }
  [[nodiscard]] iterator end() noexcept { return items_.end(); }
  [[nodiscard]] const_iterator begin() const noexcept { return items_.begin(); }
  [[nodiscard]] const_iterator end() const noexcept { return items_.end(); }
  [[nodiscard]] reference front() { return items_.front(); }
  [[nodiscard]] const_reference front() const { return items_.front(); }
  [[nodiscard]] reference back() { return items_.back(); }
  [[nodiscard]] const_reference back() const { return items_.back(); }

  void reserve(std::integral auto count) { items_.reserve(count); }
  void resize(std::integral auto count) { items_.resize(count); }
  void resize(std::integral auto count, const T& value) { items_.resize(count, value); }
  void assign(std::integral auto count, const T& value) { items_.assign(count, value); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void clear() noexcept { items_.clear(); }

  /// The elements without the typed index, for functions that take any vector.
  [[nodiscard]] const Items& items() const& noexcept { return items_; }
  [[nodiscard]] Items items() && noexcept { return std::move(items_); }

  friend bool operator==(const IndexedVector&, const IndexedVector&) = default;

 private:
  Items items_;
};

template <class Id, class T, std::size_t kCount>
struct IndexedArray {
  [[nodiscard]] constexpr T& operator[](IndexOf<Id> auto id) { return items[position_of(id)]; }
  [[nodiscard]] constexpr const T& operator[](IndexOf<Id> auto id) const {
    return items[position_of(id)];
  }
  /// Throws std::out_of_range unless 0 <= id < size().
  [[nodiscard]] constexpr T& at(IndexOf<Id> auto id) { return items.at(position_of(id)); }
  [[nodiscard]] constexpr const T& at(IndexOf<Id> auto id) const {
    return items.at(position_of(id));
  }
  [[nodiscard]] static constexpr std::size_t size() noexcept { return kCount; }
  [[nodiscard]] constexpr auto begin() noexcept { return items.begin(); }
  [[nodiscard]] constexpr auto end() noexcept { return items.end(); }
  [[nodiscard]] constexpr auto begin() const noexcept { return items.begin(); }
  [[nodiscard]] constexpr auto end() const noexcept { return items.end(); }
  friend bool operator==(const IndexedArray&, const IndexedArray&) = default;

  std::array<T, kCount> items;  ///< in the order of the ids; public, so that braces initialize it
};

}  // namespace trireme
