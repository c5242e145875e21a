/* tok_internal.h: declarations shared by the tokenizer's files. Owns: the structures of an open
 * tokenizer and the scratch of one call. Must not know: anything outside the tokenizer. Only files
 * of core/text/tokenizer include it. */
#ifndef CORE_TOK_INTERNAL_H
#define CORE_TOK_INTERNAL_H

#include "core/base/err.h"
#include "core/text/tokenizer.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define TOK_MAX_IDS (1 << 24)   /* higher ids mean a damaged file */
#define TOK_MAX_TEXT (1u << 30) /* bytes of a text; piece offsets are 32 bits */
/* Bytes of an added token's spelling; bounds the work per text position. */
#define TOK_MAX_ADDED_BYTES 4096

/* tok_text.c: bytes and characters */

struct tok_buf {
    char *p; /* [n], not NUL-terminated */
    size_t n, cap;
};
int tok_buf_room(struct tok_buf *b, size_t more, struct err *e);
int tok_buf_add(struct tok_buf *b, const void *s, size_t n, struct err *e);
void tok_buf_free(struct tok_buf *b);

int tok_ids_room(struct tok_ids *ids, size_t more, struct err *e);
int tok_ids_push(struct tok_ids *ids, int32_t id, struct err *e);

/* Decodes one code point of s [n > 0]. Returns -1 for an ill-formed sequence; *len is then the
 * bytes that one U+FFFD replaces (the maximal subpart, Unicode 3.9), else the bytes of the code
 * point. */
int32_t tok_utf8_next(const unsigned char *s, size_t n, size_t *len);
/* Encodes cp into out [4]; returns the bytes written. */
size_t tok_utf8_put(char *out, uint32_t cp);
/* Bytes of the well-formed prefix of s [n]. */
size_t tok_utf8_valid(const char *s, size_t n);
/* Appends s [n] with every ill-formed sequence replaced by U+FFFD. With keep_tail an incomplete
 * sequence at the end is not consumed; *used is the number of bytes consumed. */
int tok_utf8_lossy(struct tok_buf *out, const char *s, size_t n, int keep_tail, size_t *used,
                   struct err *e);
int tok_is_space(uint32_t cp);   /* Unicode White_Space */
int tok_is_numeric(uint32_t cp); /* categories Nd, Nl, No */
/* Byte value of a character of the byte-level alphabet (GPT-2), or -1. */
int tok_byte_of_char(uint32_t cp);
/* Character of a byte in the byte-level alphabet (U+0021..U+0143). */
uint32_t tok_char_of_byte(unsigned char b);

/* tok_regex.c: patterns */

struct tok_pattern; /* a regular expression or a plain string */
struct tok_match;   /* scratch memory of a call */

int tok_pattern_regex(struct tok_pattern **p, const char *src, size_t n, struct err *e);
int tok_pattern_string(struct tok_pattern **p, const char *src, size_t n, struct err *e);
void tok_pattern_close(struct tok_pattern *p);
/* Bytes of a plain string of one character, else 0. */
size_t tok_pattern_one_char(const struct tok_pattern *p);
int tok_match_open(struct tok_match **m, struct err *e);
void tok_match_close(struct tok_match *m);
/* -1 if a match failed for lack of memory. To be called before a result of the matches is used. */
int tok_match_check(const struct tok_match *m, struct err *e);
/* State of a left-to-right iteration over the matches in a text. */
struct tok_walk {
    size_t pos;        /* start of the next search, bytes */
    size_t last_match; /* end of the previous match, or SIZE_MAX */
    size_t start, end; /* the current match, bytes */
};
void tok_walk_init(struct tok_walk *w);
/* 1: [w->start, w->end) is the next match in s [n]; 0: there is none. */
int tok_walk_next(const struct tok_pattern *p, struct tok_match *m, const char *s, size_t n,
                  struct tok_walk *w);

/* tok_steps.c: normalizers and pre-tokenizers */

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
    TOK_DEC_JOIN, /* default decoder: tokens joined by a space */
};
enum tok_split {
    TOK_SPLIT_ISOLATED,
    TOK_SPLIT_REMOVED,
    TOK_SPLIT_PREVIOUS,
    TOK_SPLIT_NEXT,
    TOK_SPLIT_CONTIGUOUS
};
enum tok_scheme { TOK_SCHEME_ALWAYS, TOK_SCHEME_FIRST, TOK_SCHEME_NEVER };

/* A normalizer, pre-tokenizer or decoder; op selects the fields in use. */
struct tok_step {
    enum tok_op op;
    struct tok_pattern *pat; /* SPLIT, REPLACE; BYTE_LEVEL: the GPT-2 expression or NULL */
    char *str; /* PREPEND, REPLACE: the inserted text; METASPACE, DEC_STRIP: the character */
    size_t str_bytes;
    enum tok_split behavior;
    enum tok_scheme scheme;
    int invert, prefix_space, individual, split;
    int left, right; /* NORM_STRIP: flags; DEC_STRIP: most characters */
    int as_bytes;    /* PRE_BYTE_LEVEL: the last step; the model takes raw bytes */
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
    uint32_t first;    /* 1 if it starts at the start of the input */
};
struct tok_pieces {
    struct tok_piece *p; /* [n] */
    size_t n, cap;
};

/* Scratch memory of one encode call: all growable buffers. */
struct tok_symbol {
    int32_t id, prev, next; /* id -1: merged into its neighbour; prev, next: symbol index or -1 */
};
struct tok_cand {
    uint32_t rank, pos; /* rank of the merge; index of its left symbol */
    int32_t id;         /* token that the merge creates */
};
struct tok_scratch {
    struct tok_match *match;
    struct tok_buf lossy, norm[2], pre[2];
    struct tok_pieces pieces, spare;
    struct tok_symbol *sym; /* [sym_cap] */
    struct tok_cand *heap;  /* [heap_cap] */
    size_t sym_cap, heap_n, heap_cap;
    /* [wide_cap] code points and combining classes of a run to be normalized */
    int32_t *wide;
    size_t wide_cap;
};
void tok_scratch_free(struct tok_scratch *sc);

/* Applies the normalizers to a section; *text [*n] becomes the result (in sc, or unchanged). *first
 * (see tok_piece) is cleared if a normalizer removes the beginning. */
int tok_normalize(const struct tok_steps *steps, struct tok_scratch *sc, const char **text,
                  size_t *n, int *first, struct err *e);
/* Splits normalized text into sc->pieces over *text [*n]. */
int tok_pretokenize(const struct tok_steps *steps, struct tok_scratch *sc, const char **text,
                    size_t *n, int first, struct err *e);
/* Appends s [n] with each match of the pattern replaced by the step's string. */
int tok_replace(const struct tok_step *st, struct tok_match *m, const char *s, size_t n,
                struct tok_buf *out, struct err *e);

/* tok_unicode.c: normal forms */
int tok_unicode_normalize(enum tok_op form, struct tok_scratch *sc, const char *s, size_t n,
                          struct tok_buf *out, int *changed, struct err *e);
int tok_unicode_lower(const char *s, size_t n, struct tok_buf *out, struct err *e);

/* tok_bpe.c: vocabulary and merges */

enum { TOK_ID_PRESENT = 1, TOK_ID_RAW = 2 };

struct tok_slot {
    uint32_t hash, id1; /* id + 1; 0 is empty */
};
struct tok_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX is empty */
    uint32_t rank;
    int32_t id;
};
/* The vocabulary stores every spelling once, in arena. With byte_level a spelling made of the
 * byte-level alphabet is stored as the bytes it stands for (TOK_ID_RAW), so that text is looked up
 * without conversion. */
struct tok_bpe {
    int byte_level, byte_fallback, fuse_unk, ignore_merges;
    int32_t unk; /* id; -1: not named; -2: named but not in the vocabulary */
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
    /* [256 * 256] merges of two single-byte symbols; NULL without byte_level */
    struct tok_merge *byte_pairs;
    int32_t *char_ids;     /* [65536] id of a one-character spelling, or -1; NULL with byte_level */
    int32_t byte_ids[256]; /* id of <0xNN>, or -1; valid only with byte_fallback */
    int32_t raw_ids[256];  /* id of a single byte in the byte-level alphabet, or -1 */
    /* no merge joins this character to a different one before it; 0: no such character */
    uint32_t cut;
    size_t max_token; /* bytes of the longest spelling */
};
int tok_bpe_init(struct tok_bpe *b, int32_t n_ids, size_t n_entries, struct err *e);
void tok_bpe_free(struct tok_bpe *b);
/* Adds a spelling in the file's form. -1 if id is taken or out of range. */
int tok_bpe_add(struct tok_bpe *b, const char *s, size_t n, int32_t id, struct err *e);
int tok_bpe_init_merges(struct tok_bpe *b, size_t n, struct err *e);
/* left, right: spellings in the file's form. */
int tok_bpe_add_merge(struct tok_bpe *b, const char *left, size_t nl, const char *right, size_t nr,
                      uint32_t rank, struct err *e);
void tok_bpe_put_merge(struct tok_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id);
/* Builds the tables that need the whole vocabulary, the merges, unk and byte_fallback. */
int tok_bpe_finish(struct tok_bpe *b, struct err *e);
/* Id of a spelling in the file's form (n bytes), or -1. */
int32_t tok_bpe_find(const struct tok_bpe *b, const char *s, size_t n);
/* Id of text in the encoder's form (n bytes), or -1. */
int32_t tok_bpe_find_text(const struct tok_bpe *b, const char *s, size_t n);
/* Appends the spelling of a vocabulary id in the file's form. */
int tok_bpe_spell(const struct tok_bpe *b, int32_t id, struct tok_buf *out, struct err *e);
int tok_bpe_encode(const struct tok_bpe *b, struct tok_scratch *sc, const char *s, size_t n,
                   struct tok_ids *out, struct err *e);

/* tok_added.c: added tokens */

struct tok_added {
    /* as spelled, and as normalized (the same pointer if equal) */
    char *text, *norm;
    size_t text_bytes, norm_bytes;
    int32_t id;
    int lstrip, rstrip, single_word, normalized, special;
    int as_is; /* normalized: `norm` is the spelling as it is */
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
    uint8_t first[256]; /* 1 if a token starts with the byte */
};
int tok_trie_add(struct tok_trie *t, const char *s, size_t n, int32_t value, struct err *e);
void tok_trie_free(struct tok_trie *t);

struct tok_added_set {
    struct tok_added *a; /* [n], by file order */
    size_t n, cap;
    int32_t *by_id; /* [n] indices into a, by ascending id */
    struct tok_trie raw, norm;
    struct tok_pattern *word; /* matches a word character; NULL unless a token has single_word */
};
/* A section of text: an added token, or the text between two. */
struct tok_section {
    size_t off, len; /* bytes */
    int32_t added;   /* index of the added token, or -1 */
};
struct tok_section_walk {
    size_t scan, done;       /* bytes scanned, bytes returned */
    size_t space, space_end; /* the current run of spaces, bytes */
    struct tok_section next;
    int has_next;
};
/* 1: *out is the next section of s [n]; 0: none. Zero-initialize w. */
int tok_added_next(const struct tok_added_set *set, const struct tok_trie *trie,
                   struct tok_match *m, const char *s, size_t n, struct tok_section_walk *w,
                   struct tok_section *out);
const struct tok_added *tok_added_by_id(const struct tok_added_set *set, int32_t id);
const struct tok_added *tok_added_by_text(const struct tok_added_set *set, const char *s, size_t n);
void tok_added_free(struct tok_added_set *set);

/* tokenizer.c: the open tokenizer */

#define TOK_TEXT_HERE (-1) /* in tokenizer.around: the place of the text's ids */

struct tokenizer {
    struct tok_bpe bpe;
    struct tok_added_set added;
    struct tok_steps norm, pre, dec;
    int32_t *around; /* [n_around] ids of the post-processor and TOK_TEXT_HERE */
    size_t n_around;
    int32_t n_ids, bos, eos;
};

struct tok_side;

/* Adds a token to t->added (the spelling is copied); tok_added_settle assigns its id. */
struct tok_added *tok_added_new(struct tokenizer *t, const char *s, size_t n, struct err *e);
/* Assigns ids and builds the tries, after vocabulary, normalizers and added tokens are read. */
int tok_added_settle(struct tokenizer *t, struct err *e);

int tok_json_read(struct tokenizer *t, const struct tok_source *src, struct err *e);
int tok_spm_read(struct tokenizer *t, const struct tok_source *src, const struct tok_side *side,
                 struct err *e);

/* tok_side.c: the files beside the tokenizer */

struct tok_side {
    json_t *config, *map,
        *added; /* tokenizer_config.json, special_tokens_map.json, added_tokens.json
                 */
    int raw;    /* added tokens are found in the text as it stands */
};
int tok_side_open(struct tok_side *s, const struct tok_source *src, struct err *e);
void tok_side_close(struct tok_side *s);
/* A boolean of tokenizer_config.json, or `absent`. */
int tok_side_flag(const struct tok_side *s, const char *key, int absent, int *out, struct err *e);
/* Adds the tokens that stand in these files, behind those of the tokenizer. */
int tok_side_tokens(struct tokenizer *t, const struct tok_side *s, struct err *e);
/* Sets t->bos and t->eos where the files name them. */
void tok_side_ends(struct tokenizer *t, const struct tok_side *s);

#endif
