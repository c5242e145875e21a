/* task_text.h: texts as Python changes them in the definitions of lm-evaluation-harness: white
 * space, HellaSwag's cleaning, capital letters. All texts are UTF-8. Must not know: tasks. */
#ifndef CLI_MODES_EVAL_TASK_TEXT_H
#define CLI_MODES_EVAL_TASK_TEXT_H

#include <stddef.h>

/* Bytes of TEXT [n] without the white space at its end (str.rstrip), and bytes of the white space
 * at its begin. */
size_t task_text_end(const char *text, size_t n);
size_t task_text_begin(const char *text, size_t n);
/* str.strip; malloc'd, NULL: no memory. */
char *task_text_strip(const char *text);
/* Stripped, " [title]" as ". ", without what stands in brackets on one line, every two spaces as
 * one; malloc'd, NULL: no memory. */
char *task_text_clean(const char *text);
/* str.capitalize: the first character as a title has it, all others in lower case; malloc'd, NULL:
 * no memory. */
char *task_text_capitalize(const char *text);
/* str.lower; the same. */
char *task_text_lower(const char *text);
/* Code points. */
int task_text_length(const char *text);

#endif
