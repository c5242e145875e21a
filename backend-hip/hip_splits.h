/* hip_splits.h: how the rows of a batch are divided among blocks of attention: KV splits of decode
 * rows, tiles of prompt rows. Owns: both lists. Must not know: kernels. */
#ifndef BACKEND_HIP_HIP_SPLITS_H
#define BACKEND_HIP_HIP_SPLITS_H

#include "backend-hip/hip_internal.h"

/* Floats of a row's partial results for one KV split; floats of the room for all partial results.
 */
size_t hip_split_floats(const struct heads *g);
size_t hip_part_floats(const struct be_config *c, size_t split_floats);
/* KV splits of the longest row at most; of the longest decode row of this batch. */
int hip_max_splits(const struct be_config *c);
int hip_kv_splits(const struct batch *b);
/* N rounded up to one of PER_OCTAVE numbers an octave, so that successive steps have equal launches
 * and can be replayed. */
int hip_round_up(int n, int per_octave);
/* Decode rows whose partial results have room at a time. */
int hip_rows_at_once(const struct hip *h);
/* Whether every decode row is the only row of its sequence, so that no row attends to a key that
 * another row of the step stores. */
int hip_single_rows(const struct batch *b);
/* Fills the tiles of prompt rows (attend_kernel_args.tiles) and shape.prompt_positions; returns the
 * number of tiles. Integers that they take at most. */
size_t hip_most_tiles(int rows, int seqs);
int hip_fill_tiles(struct hip *h, const struct batch *b, int32_t *tile);
/* Lists the KV splits of decode rows (attend_kernel_args.work), work_blocks for each launch, if
 * that saves an eighth of the grid of rows x splits. Returns the length of all lists, 0: none. */
int hip_fill_work(struct hip *h, const struct batch *b, int32_t *work);
/* The work list of the rows that are launched together from row `row` on, or NULL. */
const int32_t *hip_row_work(const struct hip *h, size_t row);
/* The grid of nvidia/attend_chunk.hip and nvidia/attend_decode_mma.hip for n decode rows. */
struct hip_blocks hip_pages_grid(const struct hip *h, const struct heads *g, size_t n);

#endif
