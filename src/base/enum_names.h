// EnumNames: the names of an enum's values, from which its to_text() and its parser are made. Callable from any thread.
//
//   constexpr auto kSwitchings = enum_names<Switching>("wormhole", "store-and-forward");
//   kSwitchings[Switching::Wormhole];          // "wormhole"
//   kSwitchings.parse("switching", "worm");    // throws: unknown switching 'worm'; use wormhole or store-and-forward
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/indexed_vector.h"

namespace trireme {

/// Throws Error(Usage) that lists the names.
[[noreturn]] void throw_unknown_name(std::string_view kind, std::string_view name,
                                     const std::vector<std::string>& known);

template <class Enum, std::size_t kCount>
requires std::is_enum_v<Enum>
class EnumNames {
 public:
  /// In the order of the values, which count from 0.
  constexpr explicit EnumNames(std::array<std::string_view, kCount> names) : names_(names) {}

  /// Throws std::out_of_range if the enum has no such value.
  [[nodiscard]] constexpr std::string_view operator[](Enum value) const {
    return names_.at(position_of(value));
  }
  [[nodiscard]] constexpr std::optional<Enum> find(std::string_view name) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (names_[i] == name) {
        return static_cast<Enum>(i);
      }
    }
    return std::nullopt;
  }
  /// Throws Error(Usage) that lists the names; `kind` says what they are: "switching".
  [[nodiscard]] Enum parse(std::string_view kind, std::string_view name) const {
    if (const std::optional<Enum> found = find(name)) {
      return *found;
    }
    throw_unknown_name(kind, name, list());
  }
  [[nodiscard]] std::vector<std::string> list() const { return {names_.begin(), names_.end()}; }

 private:
  std::array<std::string_view, kCount> names_;
};

template <class Enum, class... Names>
[[nodiscard]] constexpr auto enum_names(const Names&... names) {
  return EnumNames<Enum, sizeof...(Names)>(
      std::array<std::string_view, sizeof...(Names)>{std::string_view(names)...});
}

}  // namespace trireme
