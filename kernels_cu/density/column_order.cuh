// The order of columns in operands of 16-bit terms: in each group of 16, position 8 u + 2 t + e holds column
// 4 t + 2 u + e. A lane with columns 2t and 2t+1 of both halves of a fragment then has four neighbouring columns.
#pragma once

// Position of column k in its row.
__device__ inline int position_of(int k) { return k / 16 * 16 + k % 4 / 2 * 8 + k % 16 / 4 * 2 + k % 2; }

// The first, even column of the two in word w of a row; a word has two positions.
__device__ inline int column_of_word(int w) { return w / 8 * 16 + w % 4 * 4 + w % 8 / 4 * 2; }
