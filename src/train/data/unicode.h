// What kind of character a code point is, as far as splitting text into words needs it. Any thread.
#pragma once

namespace trireme::train {

enum class CharacterClass { Letter, Number, Space, Other };

/// By Unicode 14: \p{L}, \p{N}, \s of regular expressions, and the rest. Characters that later versions
/// added are Other.
[[nodiscard]] CharacterClass class_of(char32_t character);

}  // namespace trireme::train
