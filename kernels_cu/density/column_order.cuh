// The order of columns in operands of 16-bit terms: of each group of 16 position 8 u + 2 t + e holds column
// 4 t + 2 u + e. A lane with the fragments' columns 2t and 2t+1 of both halves then has four neighbouring columns.
#pragma once

// Where column k lies in its row.
__device__ inline int position_of(int k) { return k / 16 * 16 + k % 4 / 2 * 8 + k % 16 / 4 * 2 + k % 2; }

// The first of the two columns in word w of a row, of two positions a word; it is even.
__device__ inline int column_of_word(int w) { return w / 8 * 16 + w % 4 * 4 + w % 8 / 4 * 2; }
