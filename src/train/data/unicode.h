// Character classes of code points, as needed to split text into words. Callable from any thread.
#pragma once

namespace trireme::train {

enum class CharacterClass { Letter, Number, Space, Other };

/// Per Unicode 14: the regular expressions \p{L}, \p{N}, \s, and the rest. Characters added in later versions are
/// Other.
[[nodiscard]] CharacterClass class_of(char32_t character);

}  // namespace trireme::train
