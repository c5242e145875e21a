/* tok_tables.h: written by scripts/golden-tokenizer, do not edit. Owns: where the character data of
 * the tokenizers library (Oniguruma: Unicode 16; its normalizer: older than Unicode 11; its Rust:
 * newer than 16) differ from PCRE2 10.42 (Unicode 14) and utf8proc 2.8 (Unicode 15), found by
 * asking all of them about every code point. */
#ifndef CORE_TOK_TABLES_H
#define CORE_TOK_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct tok_range {
    uint32_t lo, hi; /* code points, both included */
};

static inline int tok_in_ranges(const struct tok_range *r, size_t n, uint32_t cp)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (cp > r[mid].hi) lo = mid + 1;
        else if (cp < r[mid].lo) hi = mid;
        else return 1;
    }
    return 0;
}

/* Members of a class as PCRE2 spells them inside brackets; complement where it can be needed there
 * too. */
struct tok_class {
    const char *name, *members, *complement;
};
static const struct tok_class tok_classes[] = {
    {"s",
     "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}-\\x{2029}\\x{202f}"
     "\\x{205f}"
     "\\x{3000}",
     "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
     "\\x{200b}-"
     "\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{d7ff}\\x{"
     "e000}-"
     "\\x{10ffff}"},
    {"w",
     "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{897}\\x{cf3}\\x{ece}\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{"
     "a7cd}"
     "\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d40}-\\x{10d65}\\x{10d69}-\\x{10d6d}\\x{10d6f}-"
     "\\x{10d85}"
     "\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}\\x{1123f}-\\x{11241}\\x{11380}-\\x{11389}\\x{"
     "1138b}\\x{1138e}"
     "\\x{11390}-\\x{113b5}\\x{113b7}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}"
     "-\\x{113d3}"
     "\\x{113e1}-\\x{113e2}\\x{116d0}-\\x{116e3}\\x{11bc0}-\\x{11be0}\\x{11bf0}-\\x{11bf9}\\x{"
     "11f00}-"
     "\\x{11f10}\\x{11f12}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f50}-\\x{11f5a}\\x{1342f}\\x{13440}"
     "-\\x{13455}"
     "\\x{13460}-\\x{143fa}\\x{16100}-\\x{16139}\\x{16d40}-\\x{16d6c}\\x{16d70}-\\x{16d79}\\x{"
     "18cff}\\x{1b132}"
     "\\x{1b155}\\x{1ccf0}-\\x{1ccf9}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}\\x{1e08f}\\x{1e4d0}"
     "-\\x{1e4f9}"
     "\\x{1e5d0}-\\x{1e5fa}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}",
     NULL},
    {"w alone",
     "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}-\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{897}\\x{cf3}\\x{"
     "ece}"
     "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d40}-\\x{"
     "10d65}"
     "\\x{10d69}-\\x{10d6d}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}\\x{"
     "1123f}-"
     "\\x{11241}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}-\\x{113c0}"
     "\\x{113c2}"
     "\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d3}\\x{113e1}-\\x{113e2}\\x{116d0}-\\x{"
     "116e3}\\x{11bc0}-"
     "\\x{11be0}\\x{11bf0}-\\x{11bf9}\\x{11f00}-\\x{11f10}\\x{11f12}-\\x{11f3a}\\x{11f3e}-\\x{"
     "11f42}\\x{11f50}-"
     "\\x{11f5a}\\x{1342f}\\x{13440}-\\x{13455}\\x{13460}-\\x{143fa}\\x{16100}-\\x{16139}\\x{16d40}"
     "-\\x{16d6c}"
     "\\x{16d70}-\\x{16d79}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1ccf0}-\\x{1ccf9}\\x{1df25}-\\x{1df2a}"
     "\\x{1e030}-"
     "\\x{1e06d}\\x{1e08f}\\x{1e4d0}-\\x{1e4f9}\\x{1e5d0}-\\x{1e5fa}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}"
     "\\x{31350}-"
     "\\x{323af}",
     NULL},
    {"d",
     "\\p{Nd}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
     "\\x{16130}-"
     "\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{"
     "1e5fa}",
     NULL},
    {"h", "0-9a-fA-F", "\\x{0}-/:-@G-`g-\\x{10ffff}"},
    {"L",
     "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\p{L}\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}"
     "\\x{105c0}-"
     "\\x{105f3}\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{"
     "11240}\\x{11380}-"
     "\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-"
     "\\x{11be0}"
     "\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}"
     "-\\x{143fa}"
     "\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}"
     "\\x{1e030}-"
     "\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}"
     "\\x{31350}-"
     "\\x{323af}",
     NULL},
    {"Lu", "\\p{Lu}\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}", NULL},
    {"Ll", "\\p{Ll}\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}", NULL},
    {"Lm",
     "\\p{Lm}\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}-\\x{16d6c}\\x{1e030}-\\x{1e06d}"
     "\\x{1e4eb}",
     NULL},
    {"Lo",
     "\\p{Lo}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}\\x{1123f}-"
     "\\x{11240}"
     "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}"
     "\\x{11bc0}-"
     "\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}"
     "\\x{13460}-"
     "\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1e4d0}-"
     "\\x{1e4ea}"
     "\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}",
     NULL},
    {"N",
     "\\x{30}-\\x{39}\\p{N}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{"
     "11f50}-"
     "\\x{11f59}\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{"
     "1d2d3}\\x{1e4f0}-"
     "\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}",
     NULL},
    {"Nd",
     "\\p{Nd}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
     "\\x{16130}-"
     "\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{"
     "1e5fa}",
     NULL},
    {"No", "\\p{No}\\x{1d2c0}-\\x{1d2d3}", NULL},
    {"M",
     "\\p{M}\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-"
     "\\x{113c0}"
     "\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}"
     "\\x{11f00}-"
     "\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-"
     "\\x{13455}"
     "\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}",
     NULL},
    {"Mn",
     "\\p{Mn}\\x{897}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113bb}-\\x{"
     "113c0}"
     "\\x{113ce}\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f36}-\\x{11f3a}"
     "\\x{11f40}"
     "\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{16129}\\x{1612d}-\\x{1612f}"
     "\\x{1e08f}"
     "\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}",
     NULL},
    {"Mc",
     "\\p{Mc}\\x{cf3}\\x{113b8}-\\x{113ba}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{"
     "113cd}"
     "\\x{113cf}\\x{1171e}\\x{11f03}\\x{11f34}-\\x{11f35}\\x{11f3e}-\\x{11f3f}\\x{11f41}\\x{1612a}-"
     "\\x{1612c}",
     NULL},
    {"P",
     "\\p{P}\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}\\x{"
     "11b00}-"
     "\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}",
     NULL},
    {"Pd", "\\p{Pd}\\x{10d6e}", NULL},
    {"Po",
     "\\p{Po}\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}\\x{11b00}-\\x{"
     "11b09}"
     "\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}",
     NULL},
    {"S",
     "\\p{S}\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{10d8e}-\\x{10d8f}"
     "\\x{1cc00}-"
     "\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}"
     "\\x{1f8b2}-"
     "\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}"
     "-\\x{1faaf}"
     "\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}\\x{1fae8}"
     "-\\x{1fae9}"
     "\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}",
     NULL},
    {"Sm", "\\p{Sm}\\x{10d8e}-\\x{10d8f}", NULL},
    {"So",
     "\\p{So}\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{1cc00}-\\x{"
     "1ccef}\\x{1cd00}-"
     "\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}"
     "\\x{1f8c0}-"
     "\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}\\x{1fabb}"
     "-\\x{1fabf}"
     "\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}\\x{1fae8}-\\x{1fae9}\\x{1faf7}"
     "-\\x{1faf8}"
     "\\x{1fbcb}-\\x{1fbef}",
     NULL},
    {"Cf", "\\p{Cf}\\x{13439}-\\x{1343f}", NULL},
    {"Alphabetic",
     "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{897}\\x{c04}\\x{cf3}\\x{f82}-\\x{f83}\\x{1c89}-\\x{1c8a}"
     "\\x{1dd3}-"
     "\\x{1de6}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}\\x{"
     "10d69}"
     "\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{10efc}\\x{11080}-\\x{11081}\\x{1123f}-\\x{"
     "11241}\\x{11380}-"
     "\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}-\\x{113c0}\\x{113c2}\\x{113c5}"
     "\\x{113c7}-"
     "\\x{113ca}\\x{113cc}-\\x{113cd}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f00}-\\x{11f10}"
     "\\x{11f12}-"
     "\\x{11f3a}\\x{11f3e}-\\x{11f40}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}"
     "-\\x{1612e}"
     "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"
     "\\x{1e08f}"
     "\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}"
     "-\\x{323af}",
     NULL},
    {"Han", "\\p{sc:Han}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}", NULL},
    {"Hiragana", "\\p{sc:Hiragana}\\x{1b132}", NULL},
    {"Katakana", "\\p{sc:Katakana}\\x{1b155}", NULL},
    {"Latin", "\\p{sc:Latin}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{1df25}-\\x{1df2a}", NULL},
    {"Cyrillic", "\\p{sc:Cyrillic}\\x{1c89}-\\x{1c8a}\\x{1e030}-\\x{1e06d}\\x{1e08f}", NULL},
    {"Arabic", "\\p{sc:Arabic}\\x{897}\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}", NULL},
};

static const struct {
    const char *from, *to;
} tok_long_names[] = {
    {"Letter", "L"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"Punctuation", "P"},
    {"Symbol", "S"},
    {"Separator", "Z"},
    {"Other", "C"},
    {"Alpha", "Alphabetic"},
};

/* Numeric characters that utf8proc does not know. */
static const struct tok_range tok_numeric_extra[] = {
    {0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9}, {0x11de0, 0x11de9},
    {0x11f50, 0x11f59}, {0x16130, 0x16139}, {0x16d70, 0x16d79}, {0x16ff4, 0x16ff6},
    {0x1ccf0, 0x1ccf9}, {0x1d2c0, 0x1d2d3}, {0x1e4f0, 0x1e4f9}, {0x1e5f1, 0x1e5fa},
};

#endif
