/* prefix_store.h: KV pages and states in files of one directory, from run to run. Owns: names,
 * format and checksums of the files, the bound on their size, the thread that writes them. Must not
 * know: sequences, memory of backends, what a page holds.
 *
 * NAMES. An item is named by its key, SHA-256 over the key of the page before it and its own
 * tokens; before the first page stands the root, SHA-256 over a text that says what the contents
 * depend on beside the tokens (the model, the arithmetic, the layout). So equal keys are equal
 * prefixes of one model in one arithmetic, and files of others are not even looked at. A file's
 * name has the first half of its key and of its parent's a quarter, so that a listing alone tells
 * which page follows which.
 *
 * FILES. Header and contents, each with a crc32; the header repeats the root, the key, the parent
 * and the page's tokens, which are compared in full. A file is written under another name and
 * renamed when it is whole. It is not synced: what a loss of power leaves is found by its
 * checksums. A file that is not as it should be is removed where possible, said once, and counts
 * as not there: nothing that happens to the directory is an error. One with the name of what is
 * to be written is compared with it, and replaced where it differs.
 *
 * SIZE. Before a file is written those that were not used for the longest time are removed, until
 * it fits. A file is used when it is written or prefix_store_touch names it, by the time of its
 * last change, or when one behind it is, or is to be written: so a prefix goes from its end, and of
 * one that is longer than the bound the beginning stays. Nothing is written behind a page that is
 * not there. Sizes count in blocks of 4 KiB. Each process looks at the whole directory at its first
 * write, when the bound is reached, and whenever it has written a sixteenth of the bound.
 *
 * THREADS. One thread writes; all functions are called by one other thread. */
#ifndef CORE_PREFIX_STORE_H
#define CORE_PREFIX_STORE_H

#include "core/base/err.h"
#include "core/step/batch.h"

#include <sha2.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct prefix_key {
    uint8_t byte[SHA256_DIGEST_LENGTH];
};

/* PREFIX_STATE: the states behind the page with the same key. */
enum prefix_kind { PREFIX_PAGE, PREFIX_STATE, PREFIX_KINDS };

struct prefix_item {
    enum prefix_kind kind;
    struct prefix_key key, parent; /* parent: the key of the page before, or the root */
    struct prefix_key before;      /* the parent's parent; of a first page zeros */
    int32_t token[KV_PAGE];        /* of the page; of states, of the page that they are behind */
};

/* An item on its way to the disk. It is the caller's, and its data, until `busy` is 0 again. */
struct prefix_job {
    struct prefix_item item;
    const void *data;
    atomic_int busy;
    struct prefix_job *next;
};

struct prefix_store_options {
    const char *dir;            /* made if only its last part is not there */
    uint64_t most_bytes;        /* of all files */
    int trims;                  /* the bound holds at the end also where nothing was written */
    const char *depends;        /* what contents depend on beside tokens */
    size_t bytes[PREFIX_KINDS]; /* of contents; 0: there are none of that kind */
    /* Receives lines on the caller's thread: one about damage, one about writing; NULL: nobody. */
    void (*note)(void *arg, const char *line);
    void *note_arg;
};

struct prefix_store_stats {
    uint64_t n_read, n_written, n_evicted; /* files */
    uint64_t n_damaged;
};

struct prefix_store;

/* Error: no directory, and none could be made; or not one item of some kind within most_bytes. */
int prefix_store_open(struct prefix_store **out, const struct prefix_store_options *o,
                      struct err *e);
/* Waits until all that was put is written. */
void prefix_store_close(struct prefix_store *s);

/* What first pages are behind. */
struct prefix_item prefix_store_root(const struct prefix_store *s);
/* The page with these tokens [KV_PAGE] behind PARENT, a page or the root. */
struct prefix_item prefix_item_of(const struct prefix_item *parent, const int32_t *token);
/* 1 when there is a file of this name, whatever it holds. */
int prefix_store_has(const struct prefix_store *s, const struct prefix_item *item);
/* Reads the contents of an item into `to` [options.bytes of its kind], which may hold anything
 * afterwards when there is none. 1: read; 0: there is no such file, or it is damaged. */
int prefix_store_read(struct prefix_store *s, const struct prefix_item *item, void *to);
/* The item, and all pages before it, were used now. */
void prefix_store_touch(struct prefix_store *s, const struct prefix_item *item);
/* Hands a job to the writer. 0: nothing is written any more, the job is not busy. */
int prefix_store_put(struct prefix_store *s, struct prefix_job *job);
/* Waits until the writer has done a job, or has none. */
void prefix_store_wait(struct prefix_store *s);
struct prefix_store_stats prefix_store_stats(struct prefix_store *s);

#endif
