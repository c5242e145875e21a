/* call_syntax.h: how models write calls of functions: one description for each syntax, read by the
 * grammar (calls.c) and by the reader of answers (core/text/toolcalls.h) alike. Owns: the table,
 * and which of its rows a chat template uses. Must not know: schemas, answers, tokens. */
#ifndef CORE_CALL_SYNTAX_H
#define CORE_CALL_SYNTAX_H

#include <stddef.h>

enum call_body {
    CALL_JSON,    /* an object of two members: the name, the arguments */
    CALL_NAMED,   /* the name, then the arguments as a JSON object */
    CALL_MEMBERS, /* the name, then each argument by itself: strings as they are, others as JSON */
    CALL_PYTHON,  /* NAME(KEY=VALUE, ..) as in Python; is only read, no grammar has it */
};

/* Calls are: maybe? begin CALL (between CALL)* end, where CALL is: call BODY call_end. Every text
 * is as models write it; where an answer is read, white space in a text may be other or missing.
 * NULL where a syntax has no such text. */
struct call_syntax {
    const char *name;     /* of --tool-call-parser; several rows may share one */
    const char *aliases;  /* further names, with a space behind each */
    const char *signs[3]; /* the template has all of these; none: is never recognised */
    const char *maybe, *begin, *end, *call, *call_end, *between;
    enum call_body body;
    const char *name_key, *arguments_key; /* CALL_JSON */
    const char *call_id;  /* CALL_NAMED: behind the name, before an id of CALL_ID_LETTERS */
    const char *index;    /* CALL_NAMED: behind the name, before a number of the call */
    const char *name_end; /* CALL_NAMED, CALL_MEMBERS: behind the name */
    const char *key, *key_end, *value_end; /* CALL_MEMBERS: key NAME key_end VALUE value_end */
    int is_single;                         /* the template takes one call of an answer */
    int short_ids; /* the template takes ids of CALL_ID_LETTERS letters and digits alone */
};
enum { CALL_ID_LETTERS = 9, CALL_INDEX_DIGITS = 3 };

/* The row that a template's source [n] uses; NULL: none is known. NAME: only rows of this name,
 * and the first of them where the template tells none; NULL: all rows. */
const struct call_syntax *call_syntax_find(const char *source, size_t n, const char *name);
/* 1: some row has the name. */
int call_syntax_is_name(const char *name);
/* What a call has to be where no row is known: vLLM's array of objects. */
const struct call_syntax *call_syntax_plain(void);
/* Rows by number, for texts that name one; NULL: there is no such row. */
const struct call_syntax *call_syntax_row(long long row);
int call_syntax_number(const struct call_syntax *s);

/* The text with which the first call begins, up to white space, or all of it where something may
 * stand before it; *n is 0 where calls can be told by the answer's first character alone. */
const char *call_syntax_opening(const struct call_syntax *s, size_t *n);
/* 1: NAME [n] can stand where a syntax other than CALL_JSON has one. */
int call_syntax_takes_name(const char *name, size_t n);
/* All texts of a row but those of its keys, as many as `texts` has room for. */
enum { CALL_SYNTAX_TEXTS = 11 };
void call_syntax_texts(const struct call_syntax *s, const char *texts[CALL_SYNTAX_TEXTS]);

#endif
