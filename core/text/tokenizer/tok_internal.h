/* tok_internal.h: what the tokenizer's files share among themselves. Owns: the structures of an
 * open tokenizer and the scratch of one call. Must not know: anything outside the tokenizer. Only
 * core/tok_*.c and core/text/tokenizer/tokenizer.c include it. */
#ifndef CORE_TOK_INT_H
#define CORE_TOK_INT_H

#include "core/base/err.h"
#include "core/text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

#define TOK_MAX_IDS (1 << 24)   /* ids above this are taken for a damaged file */
#define TOK_MAX_TEXT (1u << 30) /* bytes of one text; piece offsets are 32 bits */
/* spelling of one added token; bounds the work per text position */
#define TOK_MAX_ADDED_BYTES 4096

/* ---- tok_text.c: bytes and characters ---- */

struct tok_buf {
    char *p; /* [n], not NUL-terminated */
    size_t n, cap;
};
int tok_buf_room(struct tok_buf *b, size_t more, struct err *e);
int tok_buf_add(struct tok_buf *b, const void *s, size_t n, struct err *e);
void tok_buf_free(struct tok_buf *b);

int tok_ids_room(struct tok_ids *ids, size_t more, struct err *e);
int tok_ids_push(struct tok_ids *ids, int32_t id, struct err *e);

/* One code point of s [n > 0]: its value, or -1 for an ill-formed sequence; *len is its bytes, for
 * an ill-formed one the bytes that one U+FFFD replaces (the maximal subpart). */
int32_t tok_utf8_next(const unsigned char *s, size_t n, size_t *len);
/* Appends cp to out [4], returns the bytes written. */
size_t tok_utf8_put(char *out, uint32_t cp);
/* Bytes of the well-formed prefix of s [n]. */
size_t tok_utf8_valid(const char *s, size_t n);
/* Appends s [n] with every ill-formed sequence replaced by U+FFFD. With keep_tail an unfinished
 * sequence at the end is not consumed; *used says how many bytes were. */
int tok_utf8_lossy(struct tok_buf *out, const char *s, size_t n, int keep_tail, size_t *used,
                   struct err *e);
int tok_is_space(uint32_t cp);   /* Unicode White_Space */
int tok_is_numeric(uint32_t cp); /* categories Nd, Nl, No */
/* Byte value of a character of the byte-level alphabet, or -1. */
int tok_byte_of_char(uint32_t cp);
/* Character that stands for a byte in the byte-level alphabet (U+0021..U+0143). */
uint32_t tok_char_of_byte(unsigned char b);

/* ---- tok_regex.c: patterns ---- */

struct tok_pattern; /* a regular expression or a plain string */
struct tok_match;   /* per-call scratch of matching */

int tok_pattern_regex(struct tok_pattern **p, const char *src, size_t n, struct err *e);
int tok_pattern_string(struct tok_pattern **p, const char *src, size_t n, struct err *e);
void tok_pattern_close(struct tok_pattern *p);
/* Bytes of a plain string that is one character, else 0. */
size_t tok_pattern_one_char(const struct tok_pattern *p);
int tok_match_open(struct tok_match **m, struct err *e);
void tok_match_close(struct tok_match *m);
/* -1 when a match lacked memory and was taken for none: to be asked before what came of it is
 * handed on. */
int tok_match_check(const struct tok_match *m, struct err *e);
/* State of one left-to-right walk over the matches of a text. */
struct tok_walk {
    size_t pos;        /* where the next search starts, bytes */
    size_t last_match; /* end of the match before, or SIZE_MAX */
    size_t start, end; /* the match found, bytes */
};
void tok_walk_init(struct tok_walk *w);
/* 1: w->start, w->end hold the next match in s [n]; 0: there is none. */
int tok_walk_next(const struct tok_pattern *p, struct tok_match *m, const char *s, size_t n,
                  struct tok_walk *w);

/* ---- tok_steps.c: normalizers and pre-tokenizers ---- */

enum tok_op {
    TOK_NORM_PREPEND,
    TOK_NORM_REPLACE,
    TOK_NORM_NFC,
    TOK_NORM_NFD,
    TOK_NORM_NFKC,
    TOK_NORM_NFKD,
    TOK_NORM_LOWERCASE,
    TOK_NORM_STRIP,
    TOK_PRE_SPLIT,
    TOK_PRE_BYTE_LEVEL,
    TOK_PRE_DIGITS,
    TOK_PRE_METASPACE,
    TOK_DEC_BYTE_LEVEL,
    TOK_DEC_REPLACE,
    TOK_DEC_BYTE_FALLBACK,
    TOK_DEC_FUSE,
    TOK_DEC_STRIP,
    TOK_DEC_METASPACE,
    TOK_DEC_JOIN, /* no decoder in the file: tokens joined by one space */
};
enum tok_split {
    TOK_SPLIT_ISOLATED,
    TOK_SPLIT_REMOVED,
    TOK_SPLIT_PREVIOUS,
    TOK_SPLIT_NEXT,
    TOK_SPLIT_CONTIGUOUS
};
enum tok_scheme { TOK_SCHEME_ALWAYS, TOK_SCHEME_FIRST, TOK_SCHEME_NEVER };

/* One normalizer, pre-tokenizer or decoder with its settings; which fields count depends on op. */
struct tok_step {
    enum tok_op op;
    struct tok_pattern *pat; /* SPLIT, REPLACE; BYTE_LEVEL: the GPT-2 expression or NULL */
    char *str; /* PREPEND, REPLACE: what is put there; METASPACE, DEC_STRIP: the character */
    size_t str_bytes;
    enum tok_split behavior;
    enum tok_scheme scheme;
    int invert, prefix_space, individual, split;
    int left, right; /* NORM_STRIP: flags; DEC_STRIP: characters at most */
    int as_bytes;    /* PRE_BYTE_LEVEL: last step of all, the model takes bytes as they are */
};
struct tok_steps {
    struct tok_step *s; /* [n] */
    size_t n, cap;
};
struct tok_step *tok_steps_add(struct tok_steps *a, enum tok_op op, struct err *e);
int tok_step_set_str(struct tok_step *s, const char *str, size_t n, struct err *e);
void tok_steps_free(struct tok_steps *a);

struct tok_piece {
    uint32_t off, len; /* bytes in the section's text */
    uint32_t first;    /* 1 when it starts where the whole input starts */
};
struct tok_pieces {
    struct tok_piece *p; /* [n] */
    size_t n, cap;
};

/* Scratch of one encode call: everything that grows lives here. */
struct tok_symbol {
    int32_t id, prev, next; /* id -1: merged away; prev, next: symbol index or -1 */
};
struct tok_cand {
    uint32_t rank, pos; /* of the merge, of its left symbol */
    int32_t id;         /* token that the merge makes */
};
struct tok_scratch {
    struct tok_match *match;
    struct tok_buf lossy, norm[2], pre[2];
    struct tok_pieces pieces, spare;
    struct tok_symbol *sym; /* [sym_cap] */
    struct tok_cand *heap;  /* [heap_cap] */
    size_t sym_cap, heap_n, heap_cap;
    int32_t *wide; /* [wide_cap] code points and combining classes of one run to normalize */
    size_t wide_cap;
};
void tok_scratch_free(struct tok_scratch *sc);

/* Runs the normalizers over one section: *text, *n then are the result (in sc or unchanged). *first
 * (see tok_piece) is cleared when a normalizer removed the beginning. */
int tok_normalize(const struct tok_steps *steps, struct tok_scratch *sc, const char **text,
                  size_t *n, int *first, struct err *e);
/* Cuts one piece of normalized text; the pieces are left in sc->pieces, over *text [*n]. */
int tok_pretokenize(const struct tok_steps *steps, struct tok_scratch *sc, const char **text,
                    size_t *n, int first, struct err *e);
/* Appends s [n] with pattern replaced by the step's string. */
int tok_replace(const struct tok_step *st, struct tok_match *m, const char *s, size_t n,
                struct tok_buf *out, struct err *e);

/* tok_unicode.c: canonical forms */
int tok_unicode_normalize(enum tok_op form, struct tok_scratch *sc, const char *s, size_t n,
                          struct tok_buf *out, int *changed, struct err *e);
int tok_unicode_lower(const char *s, size_t n, struct tok_buf *out, struct err *e);

/* ---- tok_bpe.c: vocabulary and merges ---- */

enum { TOK_ID_PRESENT = 1, TOK_ID_RAW = 2 };

struct tok_slot {
    uint32_t hash, id1; /* id + 1; 0 is empty */
};
struct tok_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX is empty */
    uint32_t rank;
    int32_t id;
};
/* The vocabulary keeps every spelling once, in arena. With byte_level a spelling made of the
 * byte-level alphabet is kept as the bytes it stands for (TOK_ID_RAW), so that text is looked up as
 * it is. */
struct tok_bpe {
    int byte_level, byte_fallback, fuse_unk, ignore_merges;
    int32_t unk; /* id; -1: none named; -2: named but not in the vocabulary */
    struct tok_buf arena;
    uint32_t *off, *len; /* [n_ids] in arena, bytes */
    uint8_t *flags;      /* [n_ids] TOK_ID_ */
    int32_t n_ids;
    size_t n_entries;       /* spellings in the vocabulary */
    struct tok_slot *slots; /* [slot_mask + 1] */
    uint32_t slot_mask;
    struct tok_merge *merges; /* [1 << merge_bits], open addressing */
    int merge_bits;
    size_t n_merges;
    struct tok_merge
        *byte_pairs;   /* [256 * 256] merge of two single-byte symbols; NULL without byte_level */
    int32_t *char_ids; /* [65536] id of a one-character spelling, -1; NULL with byte_level */
    int32_t byte_ids[256]; /* id of <0xNN>, -1; only meaningful with byte_fallback */
    int32_t raw_ids[256];  /* id of a single byte in the byte-level alphabet, -1 */
    uint32_t cut; /* no merge joins anything before this character, except itself; 0: none such */
    size_t max_token; /* bytes of the longest spelling */
};
int tok_bpe_init(struct tok_bpe *b, int32_t n_ids, size_t n_entries, struct err *e);
void tok_bpe_free(struct tok_bpe *b);
/* Adds a spelling as the file has it. 0, or -1 when id is taken or out of range. */
int tok_bpe_add(struct tok_bpe *b, const char *s, size_t n, int32_t id, struct err *e);
int tok_bpe_init_merges(struct tok_bpe *b, size_t n, struct err *e);
/* left, right: spellings as the file has them. */
int tok_bpe_add_merge(struct tok_bpe *b, const char *left, size_t nl, const char *right, size_t nr,
                      uint32_t rank, struct err *e);
void tok_bpe_put_merge(struct tok_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id);
/* Tables that need the whole vocabulary, the merges, unk and byte_fallback. */
int tok_bpe_finish(struct tok_bpe *b, struct err *e);
/* Id of a spelling as the file has it (n bytes), or -1. */
int32_t tok_bpe_find(const struct tok_bpe *b, const char *s, size_t n);
/* Id of text as the encoder sees it, or -1. */
int32_t tok_bpe_find_text(const struct tok_bpe *b, const char *s, size_t n);
/* Appends the spelling of a vocabulary id as the file has it. */
int tok_bpe_spell(const struct tok_bpe *b, int32_t id, struct tok_buf *out, struct err *e);
int tok_bpe_encode(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                   struct tok_ids *out, struct err *e);

/* ---- tok_added.c: added tokens ---- */

struct tok_added {
    char *text,
        *norm; /* as spelled, and as the normalizers leave it (the same pointer when equal) */
    size_t text_bytes, norm_bytes;
    int32_t id;
    int lstrip, rstrip, single_word, normalized, special;
};
struct tok_trie_edge {
    uint32_t node, child; /* child 0: empty slot */
    uint8_t byte;
};
struct tok_trie {
    struct tok_trie_edge *edges; /* [mask + 1], open addressing */
    uint32_t mask, n_edges, n_nodes;
    int32_t *value; /* [value_cap] index of the added token that ends at a node, -1 */
    size_t value_cap;
    uint8_t first[256]; /* 1 when a token starts with the byte */
};
int tok_trie_add(struct tok_trie *t, const char *s, size_t n, int32_t value, struct err *e);
void tok_trie_free(struct tok_trie *t);

struct tok_added_set {
    struct tok_added *a; /* [n], by file order */
    size_t n, cap;
    int32_t *by_id; /* [n] indices into a, ascending id */
    struct tok_trie raw, norm;
    struct tok_pattern *word; /* a word's character; only when a token wants single words */
};
/* One stretch of text: an added token or text between two. */
struct tok_section {
    size_t off, len; /* bytes */
    int32_t added;   /* index, or -1 */
};
struct tok_section_walk {
    size_t scan, done;       /* bytes looked at, bytes given out */
    size_t space, space_end; /* a run of spaces seen, bytes */
    struct tok_section next;
    int has_next;
};
/* 1: *out is the next section of s [n]; 0: no more. Zero-initialize w. */
int tok_added_next(const struct tok_added_set *set, const struct tok_trie *trie,
                   struct tok_match *m, const char *s, size_t n, struct tok_section_walk *w,
                   struct tok_section *out);
const struct tok_added *tok_added_by_id(const struct tok_added_set *set, int32_t id);
const struct tok_added *tok_added_by_text(const struct tok_added_set *set, const char *s, size_t n);
void tok_added_free(struct tok_added_set *set);

/* ---- the whole ---- */

#define TOK_TEXT_HERE (-1) /* in tokenizer.around: where the text's ids go */

struct tokenizer {
    struct tok_bpe bpe;
    struct tok_added_set added;
    struct tok_steps norm, pre, dec;
    int32_t *around; /* [n_around] ids of the post-processor and TOK_TEXT_HERE */
    size_t n_around;
    int32_t n_ids, bos, eos;
};

/* Adds one token to t->added (the spelling is copied); ids are given out by tok_added_settle. */
struct tok_added *tok_added_new(struct tokenizer *t, const char *s, size_t n, struct err *e);
/* After vocabulary, normalizers and added tokens are read: gives ids, builds the tries. */
int tok_added_settle(struct tokenizer *t, struct err *e);

int tok_json_read(struct tokenizer *t, const struct tok_source *src, struct err *e);
int tok_spm_read(struct tokenizer *t, const struct tok_source *src, struct err *e);
/* bos_token and eos_token from the two side files, then fallbacks left in t->bos, t->eos. */
int tok_config_read(struct tokenizer *t, const struct tok_source *src, struct err *e);

#endif
