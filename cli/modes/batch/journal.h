/* journal.h: the answers of a batch on disk, in the order in which they were finished, so that a
 * long request does not delay others and an interrupted run loses no finished answer. Owns:
 * OUT.journal, its lock, the index of its frames. Must not know: the form of an answer or of a
 * manifest.
 *
 * FORMAT. Frames, each a header line of 42 bytes and a payload of one line:
 *     #T SLOT S BYTES CRC\n     T: m manifest, r answer, c complete, x nothing; S: 1 where the
 *                               answer is an error record, else 0; SLOT, BYTES, CRC in 16, 10 and 8
 *                               hex digits; CRC: crc32 of header (up to it) and payload
 * The first frame is the manifest: what the answers depend on. Nothing follows before it is on the
 * medium. Answers are appended as they finish, and brought to the medium in groups
 * (JOURNAL_SYNC_*). A frame that a crash left unfinished ends the journal: it is cut off and
 * computed again. Damage that sound frames follow costs what it covers: an x frame takes its place,
 * and those answers are computed again. When the output file is in place the journal is replaced
 * (rename) by one that holds the manifest and a `c` frame with the output's size and crc32, so that
 * the same command knows that there is nothing left to do. */
#ifndef CLI_MODES_BATCH_JOURNAL_H
#define CLI_MODES_BATCH_JOURNAL_H

#include "cli/text/out.h"
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { JOURNAL_HEADER = 42, JOURNAL_SYNC_BYTES = 4 << 20 };
#define JOURNAL_SYNC_SECONDS 2.0

struct journal;

/* Opens or creates PATH, locks it (another run on it is an error), reads what it holds and cuts a
 * torn end. PATH NULL: an unnamed temporary file, never synced. *note receives a line for people,
 * or "". A symbolic link is refused. */
int journal_open(struct journal **j, const char *path, uint64_t n_slots, char note[256],
                 struct err *e);
/* Gives the journal the permissions of the file that its answers will replace. */
int journal_take_mode(struct journal *j, const char *answers, struct err *e);
/* Removes the file when nothing was started in it. */
void journal_close(struct journal *j);
/* Manifest [*n] of a journal that was started, or NULL. */
const char *journal_manifest(const struct journal *j, size_t *n);
/* Payload of the `c` frame [*n], or NULL. */
const char *journal_completion(const struct journal *j, size_t *n);
/* Empties the journal and begins it with this manifest (a line). */
int journal_start(struct journal *j, const char *manifest, size_t n, struct err *e);

int journal_has(const struct journal *j, uint64_t slot);
uint64_t journal_count(const struct journal *j);  /* answers held */
uint64_t journal_errors(const struct journal *j); /* error records among them */
/* Adds an answer: written at once, brought to the medium by journal_sync. */
int journal_add(struct journal *j, uint64_t slot, int is_error, const char *payload, size_t n,
                struct err *e);
/* Brings what was added to the medium when it is old (NOW, seconds) or large enough, or when
 * forced. */
int journal_sync(struct journal *j, double now, int force, struct err *e);

/* Appends the payload of SLOT (which it must have) to *o, checked against its crc32. */
int journal_read(struct journal *j, uint64_t slot, struct out *o, struct err *e);
/* The same for the frame at *offset (0: the first answer), in the order of the journal. 1: *offset
 * moved on; 0: the end. */
int journal_walk(struct journal *j, uint64_t *offset, struct out *o, struct err *e);
/* Replaces the journal by its manifest and a `c` frame. */
int journal_complete(struct journal *j, const char *payload, size_t n, struct err *e);

#endif
