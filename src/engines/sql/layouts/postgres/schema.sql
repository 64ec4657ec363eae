{create};
