/* python_json.h: a document as Python's json.dumps(document, indent=2, ensure_ascii=False) writes
 * it, of whose bytes lm-evaluation-harness takes hashes. Must not know: what the document is. */
#ifndef CLI_MODES_EVAL_PYTHON_JSON_H
#define CLI_MODES_EVAL_PYTHON_JSON_H

#include "cli/text/out.h"

#include <jansson.h>

void python_json(struct out *o, const json_t *document);
/* repr() of a float: the fewest digits that are read back as V, which is finite. */
void python_json_real(struct out *o, double v);

#endif
