"""The file of a Lambda function for SageMaker's and Nova's RLVR: put assay-client beside it, and set ASSAY_URL.

For other models than Nova, import `lambda_handler_http as lambda_handler`.
"""

from assay_client.adapters.for_messages import lambda_handler

__all__ = ["lambda_handler"]
